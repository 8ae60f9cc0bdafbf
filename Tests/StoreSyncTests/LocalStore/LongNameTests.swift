import Foundation
import Operations
import Testing

@testable import StoreSync

@Suite("A store with a long name", .timeLimit(.minutes(60)))
struct LongNameTests {
    /// A name of `byteCount` bytes, with as many two-byte characters as fit.
    private static func name(_ byteCount: Int, end: String = "") -> String {
        let count = byteCount - end.utf8.count
        return (count % 2 == 0 ? "" : "n") + String(repeating: "é", count: count / 2) + end
    }

    @Test(
        "A store with a long name is replaced, and is created if it doesn't exist",
        arguments: [198, 199, 200, 208, 247]
    )
    func replacement(byteCount: Int) throws {
        let store = try TestStore(Self.name(byteCount))
        #expect(store.url.lastPathComponent.utf8.count == byteCount)
        try store.replace(expecting: .absent)
        #expect(try store.content() == "new")
        try FileManager.default.removeItem(at: store.url)
        try store.make("old", in: .closedInWALMode)
        let root = try store.root()
        try store.replace(expecting: .unchanged(acceptable: [root]))
        #expect(try store.content() == "new")
        #expect(try store.journalMode() == "wal")
        #expect(try store.names() == [store.url.lastPathComponent])
    }

    @Test("A store with a long name is pushed and pulled", arguments: [200, 247])
    func roundTrip(byteCount: Int) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let urls = [a, b].map { $0.store.deletingLastPathComponent().appending(path: Self.name(byteCount)) }
        for note in ["one", "two"] {
            try Store.write([note], to: urls[0])
            _ = try await a.push(urls[0]).value
            _ = try await b.pull(urls[1]).value
        }
        #expect(try Store.notes(in: urls[1]) == ["one", "two"])
    }

    @Test("A store's name is refused, naming its length, if the name of SQLite's journal would be too long")
    func tooLong() throws {
        let store = try TestStore(Self.name(248))
        let error = #expect(throws: StoreSyncError.self) { try LocalStore(store.url) }
        #expect(error?.code == .storeNotFound)
        #expect(
            error?.message == """
                The name of \(store.url.path) has 248 bytes. SQLite needs 8 more for the name of a journal, so 247 are \
                the maximum. Give the store a shorter name.
                """
        )
    }

    @Test("A store with a long name has its own leftovers removed, and no other store's")
    func leftovers() throws {
        let folder = try TestStore()
        let id = UUID().uuidString
        var names = [
            Self.name(198), Self.name(247), Self.name(247, end: "x"), "a", "a.storesync-b", "a.storesync-\(id)",
        ]
        #if os(Linux)
        // These names are equal in Swift, and different in the file system.
        names += ["\u{e9}", "e\u{301}"]
        #endif
        let stores = try names.map { try LocalStore(folder.file($0)) }
        let shortened = StoreReplacement.temporaryURL(for: stores[1]).lastPathComponent
        // A store whose name equals the shortened form of a long name.
        let impostor = String(shortened.dropFirst().prefix { $0 != "." })
        for store in try stores + [LocalStore(folder.file(impostor))] {
            let others = stores.filter { $0.path != store.path }
                .map { StoreReplacement.temporaryURL(for: $0) }
            let own = ["", "-mode", "-journal", "-wal", "-shm"]
                .map { URL(fileURLWithPath: StoreReplacement.temporaryURL(for: store).path + $0) }
            for file in others + own { try Data().write(to: file) }
            StoreReplacement.removeLeftovers(nextTo: store.url)
            #expect(own.allSatisfy { !FileManager.default.fileExists(atPath: $0.path) }, "\(store.path)")
            #expect(others.allSatisfy { FileManager.default.fileExists(atPath: $0.path) }, "\(store.path)")
            for file in others { try FileManager.default.removeItem(at: file) }
        }
    }
}
