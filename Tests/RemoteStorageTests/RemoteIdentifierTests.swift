import Foundation
import RemoteStorage
import Testing

@Suite("A remote identifier")
struct RemoteIdentifierTests {
    @Test(
        "A remote identifier is a name that every storage accepts",
        arguments: [
            "a", "0", "Notes", "org.example.notes-2_b", "a..b", "console", "com", "com10", "lpt",
            String(repeating: "x", count: 128),
        ]
    )
    func takes(string: String) throws {
        #expect(try RemoteIdentifier(string).rawValue == string)
    }

    @Test(
        "A name that some storage refuses isn't a remote identifier, and the error states the rules",
        arguments: [
            "", ".", "..", "../x", "a/b", "a b", "é", "a\u{301}", ".a", "a.", "-a", "a-", "_", "a\0", "a\n", "٣",
            String(repeating: "x", count: 129), String(repeating: "x", count: 300),
        ]
    )
    func refuses(string: String) {
        let error = #expect(throws: RemoteError.self) { try RemoteIdentifier(string) }
        #expect(error?.code == .invalidIdentifier)
        #expect(error?.message.contains("Use 1 to 128") == true)
    }

    @Test(
        "The name of a Windows device isn't a remote identifier",
        arguments: ["CON", "con", "con.txt", "PRN", "Aux", "nul.tar.gz", "COM1", "lpt9.a"]
    )
    func refusesDevices(string: String) {
        let error = #expect(throws: RemoteError.self) { try RemoteIdentifier(string) }
        #expect(error?.code == .invalidIdentifier)
        #expect(error?.message.contains("Windows") == true)
    }

    @Test("A remote identifier detects names that differ only in case")
    func differsInCase() throws {
        let notes = try RemoteIdentifier("notes")
        #expect(try notes.differsOnlyInCase(from: RemoteIdentifier("Notes")))
        #expect(!notes.differsOnlyInCase(from: notes))
        #expect(try !notes.differsOnlyInCase(from: RemoteIdentifier("note")))
    }

    @Test("A remote identifier is a string in JSON, and is validated when it is decoded")
    func codes() throws {
        let json = try JSONEncoder().encode([RemoteIdentifier("notes")])
        #expect(String(decoding: json, as: UTF8.self) == #"["notes"]"#)
        #expect(try JSONDecoder().decode([RemoteIdentifier].self, from: json) == [RemoteIdentifier("notes")])
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([RemoteIdentifier].self, from: Data(#"["../x"]"#.utf8))
        }
    }
}
