import Operations
import StoreChanges
import Testing

@testable import StoreSync

@Suite("The conflict log", .timeLimit(.minutes(60)))
struct ConflictLogTests {
    @Test("What merging overwrote is in the conflict log, and can be restored")
    func conflicts() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note (title) VALUES ('milk')"
        )
        _ = try await a.synchronize().value
        _ = try await b.synchronize().value
        try a.execute("UPDATE note SET title = 'oat milk'")
        try b.execute("UPDATE note SET title = 'soy milk'")
        _ = try await a.synchronize().value
        #expect(try await b.synchronize().value.conflicts == 1)
        let log = ConflictLog(ofStoreAt: b.store, state: b.state)
        let entry = try #require(try await log.entries().first)
        #expect(entry.key == "1" && entry.conflict.rule == .overwritten)
        #expect(entry.conflict.lost == ["title": .value(.text("oat milk"))])
        #expect(entry.conflict.kept == ["title": .value(.text("soy milk"))])
        #expect(!entry.isRestored)
        try await log.restore(entry.number)
        #expect(try await log.entries().map(\.isRestored) == [true])
        #expect(try b.query("SELECT title FROM note") == ["oat milk"])
        #expect(await code { try await log.restore(99) } == .conflictNotFound)
        _ = try await b.synchronize().value
        _ = try await a.synchronize().value
        #expect(try a.query("SELECT title FROM note") == ["oat milk"])
        let stranger = try fixture.device("stranger")
        try stranger.execute("CREATE TABLE note (id INTEGER PRIMARY KEY)")
        let other = ConflictLog(ofStoreAt: stranger.store, state: b.state)
        #expect(await code { try await other.entries() } == .storeNotFound)
    }

    @Test("An entry of the conflict log can be restored if it lost something and isn't restored yet")
    func restorableConflicts() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note (title) VALUES ('milk');
            CREATE TABLE word (text TEXT); INSERT INTO word VALUES ('milk')
            """
        )
        _ = try await a.synchronize().value
        _ = try await b.synchronize().value
        try a.execute("UPDATE note SET title = 'oat milk'; DELETE FROM word")
        try b.execute("UPDATE note SET title = 'soy milk'; DELETE FROM word")
        _ = try await a.synchronize().value
        #expect(try await b.synchronize().value.conflicts == 2)
        let log = ConflictLog(ofStoreAt: b.store, state: b.state)
        let entries = try await log.entries()
        let overwritten = try #require(entries.first { $0.conflict.rule == .overwritten })
        let deletedTwice = try #require(entries.first { $0.conflict.rule == .countBelowZero })
        #expect(overwritten.canBeRestored)
        #expect(!deletedTwice.canBeRestored)
        #expect(await code { try await log.restore(deletedTwice.number) } == .conflictNotFound)
        try await log.restore(overwritten.number)
        #expect(try await log.entries().filter(\.canBeRestored).isEmpty)
    }
}
