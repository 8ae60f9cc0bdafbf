#if os(Linux)
import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

// Elsewhere the file system takes both for one name.
@Suite("Two stores whose names are one text in two Unicode forms", .timeLimit(.minutes(60)))
struct UnicodeNameTests {
    private let fixture: Fixture
    private let device: Device
    /// A store that the device has pushed.
    private let composed: URL
    /// The path of another store.
    private let decomposed: URL

    init() async throws {
        fixture = try Fixture()
        device = try fixture.device("a")
        composed = fixture.folder.appending(path: "caf\u{e9}.sqlite")
        decomposed = fixture.folder.appending(path: "cafe\u{301}.sqlite")
        try Store.write(["one"], to: composed)
        _ = try await device.push(composed).value
    }

    @Test("Two stores whose names differ only in Unicode form don't inherit each other's uploads")
    func unrelated() async throws {
        try Store.write(["of another program"], to: decomposed)
        #expect(await code { try await device.push(decomposed).value } == .unrelatedStore)
        #expect(await code { try await device.pull(decomposed).value } == .localChanges)
        #expect(try await device.push(composed).value.isUnchanged)
    }

    @Test("Two stores whose names differ only in Unicode form have a record each")
    func records() async throws {
        _ = try await device.pull(decomposed).value
        for note in ["two", "three"] {
            try Store.write([note], to: composed)
            let upload = try await device.push(composed).value
            #expect(upload.divergedFrom.isEmpty && !upload.isUnchanged, "\(note)")
        }
        try Store.write(["beside"], to: decomposed)
        #expect(
            try await device.push(decomposed).value.divergedFrom.count == 1,
            "it descends from the first generation"
        )
    }

    @Test("The store keeps its record if another document is pulled to a name that differs only in Unicode form")
    func otherDocument() async throws {
        let document = try RemoteIdentifier("other")
        let other = try fixture.device("b").with(document: document)
        try await other.push(adding: "of the other document")
        _ = try await device.with(document: document).pull(decomposed).value
        try Store.write(["two"], to: composed)
        let upload = try await device.push(composed).value
        #expect(upload.generation == 2 && upload.divergedFrom.isEmpty)
    }
}
#endif
