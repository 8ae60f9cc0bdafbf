import GRDB
import Testing

@testable import StoreChanges

@Suite("A backup that is restored into the open store", .timeLimit(.minutes(60)))
struct RestoredBackupTests {
    @Test("During a synchronization, what the backup lacks isn't captured as deletions", arguments: [false, true])
    func synchronization(throughApp: Bool) throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        try app.execute("INSERT INTO note (title) VALUES ('milk')")
        _ = try fixture.open("laptop").synchronized(with: [])
        let backup = try DatabaseQueue()
        try app.backup(to: backup)
        try app.execute("INSERT INTO note (title) VALUES ('bread')")
        _ = try fixture.open("laptop").synchronized(with: [])
        try fixture.app("phone").execute("INSERT INTO note (title) VALUES ('tea')")
        let set = try #require(try fixture.open("phone").recordSet())

        let observed = ObservedSet(set) { try backup.backup(to: app) }
        let store = try fixture.open("laptop", through: throughApp ? app : nil)
        let error = #expect(throws: StoreChangesError.self) { try store.synchronize(with: [observed]) }
        #expect(error?.code == .storeReplaced)
        #expect(error?.message.contains("app's connection") == throughApp, "\(error as Any)")
        #expect(try store.ownSets(1...9).count == 2)
        #expect(try app.query("SELECT title FROM note") == ["milk"])
        let next = #expect(throws: StoreChangesError.self) { try fixture.open("laptop").synchronize(with: []) }
        #expect(next?.message.contains("--take local") == true, "\(next as Any)")
    }
}
