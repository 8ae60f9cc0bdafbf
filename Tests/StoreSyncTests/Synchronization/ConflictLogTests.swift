import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("The entries of a conflict log", .timeLimit(.minutes(60)))
struct ConflictLogTests {
    @Test("Later entries are read alone, and name the clients as lists of clients do")
    func laterEntries() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note (title) VALUES ('milk'), ('bread')"
        )
        let clients = Set([try await a.synchronize().value.client, try await b.synchronize().value.client])
        for (device, prefix) in [(a, "good"), (b, "better")] {
            try device.execute("UPDATE note SET title = '\(prefix) ' || title")
            _ = try await device.synchronize().value
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
