import Foundation
import Operations
import RemoteStorage
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
            CREATE TABLE word (text TEXT); INSERT INTO word VALUES ('milk');
            CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL); INSERT INTO tag VALUES ('milk');
            CREATE TABLE tagged (tag TEXT PRIMARY KEY NOT NULL REFERENCES tag ON DELETE CASCADE)
            """
        )
        _ = try await a.synchronize().value
        _ = try await b.synchronize().value
        try a.execute("UPDATE note SET title = 'oat milk'; DELETE FROM word; DELETE FROM tag")
        try b.execute("UPDATE note SET title = 'soy milk'; DELETE FROM word; INSERT INTO tagged VALUES ('milk')")
        _ = try await a.synchronize().value
        #expect(try await b.synchronize().value.conflicts == 3)
        let log = ConflictLog(ofStoreAt: b.store, state: b.state)
        let entries = try await log.entries()
        let overwritten = try #require(entries.first { $0.conflict.rule == .overwritten })
        let deletedTwice = try #require(entries.first { $0.conflict.rule == .countBelowZero })
        // The row consists of its key.
        let deletedWithParent = try #require(entries.first { $0.conflict.rule == .deletedWithParent })
        #expect(overwritten.canBeRestored && deletedWithParent.canBeRestored)
        #expect(!deletedTwice.canBeRestored)
        #expect(await code { try await log.restore(deletedTwice.number) } == .conflictNotFound)
        try b.execute("INSERT INTO tag VALUES ('milk')")
        for entry in [overwritten, deletedWithParent] { try await log.restore(entry.number) }
        #expect(try await log.entries().filter(\.canBeRestored).isEmpty)
    }

    @Test("Later entries are read alone, and name the clients as lists of clients do")
    func laterEntries() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note (title) VALUES ('milk'), ('bread')"
        )
        let clients = Set([try await a.synchronize().value.client, try await b.synchronize().value.client])
        for (device, prefix) in [(a, "good"), (b, "better")] {
            try await device.synchronize(after: "UPDATE note SET title = '\(prefix) ' || title")
        }
        let log = ConflictLog(ofStoreAt: b.store, state: b.state)
        let entries = try await log.entries()
        #expect(entries.count == 2)
        #expect(entries.map(\.id) == entries.map(\.number))
        for entry in entries {
            #expect(Set([entry.author.client, entry.other?.client].compactMap(\.self)) == clients)
        }
        let (first, last) = (try #require(entries.first), try #require(entries.last))
        #expect(try await log.entries(after: first.number) == [last])
        #expect(try await log.entries(after: last.number).isEmpty)
    }

    @Test("An author has a date, and a client unless no remote could have one of that name")
    func author() throws {
        let author = ChangeAuthor(SetID(ClientID(rawValue: "phone"), 1), at: Stamp(rawValue: 1500))
        #expect(author.date == Date(timeIntervalSince1970: 1.5))
        #expect(try author.client == RemoteIdentifier("phone"))
        #expect(ChangeAuthor(SetID(ClientID(rawValue: "../phone"), 1), at: Stamp(rawValue: 0)).client == nil)
    }
}
