import Foundation
import Operations
import StoreChanges
import Testing

@testable import StoreSync

/// Stores of other versions of the app that join a document.
extension TakenSideTests {
    private static let note = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)"

    @Test(
        "A device joins with own rows and a newer app; the other devices get its rows once they are updated",
        arguments: [TakenSide.local, .both]
    )
    func newerApp(side: TakenSide) async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let update = "CREATE UNIQUE INDEX titles ON note (title)"
        try a.execute("\(Self.note); INSERT INTO note (title) VALUES ('of a')")
        try await synchronize(a)
        try b.execute("\(Self.note); \(update); INSERT INTO note (title) VALUES ('of b')")
        #expect(await code { try await b.synchronize().value } == .unrelatedStore)
        _ = try await take(side, b)
        #expect(try await a.synchronize().value.warnings.contains { $0.contains("newer version of the app") })
        try a.execute(update)
        try await synchronize(a, b, a)
        let expected = side == .local ? ["of b"] : ["of a", "of b"]
        for device in [a, b] {
            #expect(try device.titles() == expected)
            let result = try await device.synchronize().value
            #expect(result.publishedChanges == 0 && result.waitingFor.isEmpty && result.warnings.isEmpty)
        }
    }

    @Test("A store joins whose newer app has removed a column as soon as a store with that version is on the remote")
    func removedColumn() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("\(Self.note); INSERT INTO note (title) VALUES ('of a')")
        try await synchronize(a)
        let update = "ALTER TABLE note DROP COLUMN body"
        try b.execute("\(Self.note); \(update); INSERT INTO note (title) VALUES ('of b')")
        let error = await #expect(throws: StoreSyncError.self) { try await take(.both, b) }
        #expect(error?.code == .storeReplaced && error?.message.contains("vacuum") == true, "\(error as Any)")
        #expect(b.state.replicas().isEmpty, "the next attempt begins with another store")
        try a.execute("\(update); INSERT INTO note (title) VALUES ('edited')")
        #expect(try await a.vacuum().value.isBaselineWritten)
        _ = try await take(.both, b)
        try await synchronize(a, b)
        for device in [a, b] { #expect(try device.titles() == ["edited", "of a", "of b"]) }
    }
}
