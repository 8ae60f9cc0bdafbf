import Foundation
import GRDB
import Operations
import StoreChanges
import StoreSync
import Testing

// The code between the marks is also in the documentation.

// DOC: records
extension NotesSync {
    /// Publishes what this device has edited, and takes what other devices have edited.
    ///
    /// - Returns: What merging overwrote or left out.
    func mergeRecords() async throws -> [ConflictLog.Entry] {
        let result = try await notes.synchronize(SynchronizationRequest(url: store)).value
        for (table, rows) in result.applied { print("\(table): \(rows.inserted) new, \(rows.updated) changed") }
        return result.conflicts == 0 ? [] : try await notes.conflicts(ofStoreAt: store).entries()
    }

    /// Puts back what an entry lost, as an edit of the user.
    func restore(_ entry: ConflictLog.Entry) async throws {
        try await notes.conflicts(ofStoreAt: store).restore(entry.number)
        _ = try await mergeRecords()
    }
}
// DOC: end

@Suite("Synchronizing records")
struct SynchronizingRecordsTests {
    @Test("The examples of the article merge the edits of two devices, and restore what was overwritten")
    @MainActor func twoDevices() async throws {
        let fixture = try Fixture()
        let devices = try ["laptop", "desktop"].map { name in
            let home = fixture.folder.appending(path: name, directoryHint: .isDirectory)
            try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
            return try NotesSync(
                device: name,
                home: home,
                share: fixture.share,
                password: "correct horse battery staple"
            )
        }
        let (laptop, desktop) = (devices[0], devices[1])
        try execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, done INTEGER)", in: laptop.store)
        try execute("INSERT INTO note VALUES (1, 'milk', 0)", in: laptop.store)
        #expect(try await laptop.mergeRecords().isEmpty)
        #expect(try await desktop.mergeRecords().isEmpty)

        try execute("UPDATE note SET title = 'oat milk'; INSERT INTO note VALUES (2, 'bread', 0)", in: laptop.store)
        try execute(
            "UPDATE note SET title = 'soy milk'; INSERT INTO note VALUES (2, 'tea', 0)",
            in: desktop.store
        )
        #expect(try await laptop.mergeRecords().isEmpty)
        let conflicts = try await desktop.mergeRecords()
        #expect(conflicts.map(\.conflict.lost) == [["title": .value(.text("oat milk"))]])
        _ = try await laptop.mergeRecords()
        #expect(try titles(in: laptop.store) == ["soy milk 0", "bread 0", "tea 0"])
        #expect(try titles(in: desktop.store) == titles(in: laptop.store))

        try await desktop.restore(conflicts[0])
        _ = try await laptop.mergeRecords()
        #expect(try titles(in: laptop.store) == ["oat milk 0", "bread 0", "tea 0"])
    }

    private func execute(_ sql: String, in store: URL) throws {
        let queue = try DatabaseQueue(path: store.path)
        defer { try? queue.close() }
        try queue.write { try $0.execute(sql: sql) }
    }

    private func titles(in store: URL) throws -> Set<String> {
        let queue = try DatabaseQueue(path: store.path)
        defer { try? queue.close() }
        return try queue.read { try Set(String.fetchAll($0, sql: "SELECT title || ' ' || done FROM note")) }
    }
}
