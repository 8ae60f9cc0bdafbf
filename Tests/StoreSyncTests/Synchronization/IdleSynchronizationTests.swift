import Foundation
import GRDB
import Operations
import StoreChanges
import Testing

@testable import StoreSync

@Suite("A synchronization without news", .timeLimit(.minutes(60)))
struct IdleSynchronizationTests {
    @Test("It reads none of the edits that a silent device keeps from becoming stable, however many there are")
    func unstableEdits() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, silent) = (try fixture.device("a"), try fixture.device("b"), try fixture.device("silent"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        for device in [a, b, silent] { _ = try await device.synchronize().value }
        for device in [a, b, a, b, a] {
            try await device.synchronize(after: "INSERT INTO note (title) VALUES ('\(device.name)')")
        }
        _ = try await a.synchronize().value
        // A set whose header is read is found to be damaged.
        let replica = try DatabaseQueue(path: try #require(a.state.replicas().first).path)
        let damaged = try await replica.write { db in
            try db.execute(sql: "UPDATE sets SET header = x'00' WHERE status = 1")
            return db.changesCount
        }
        try replica.close()
        #expect(damaged == 5)
        for _ in 0..<2 {
            let idle = try await a.synchronize().value
            #expect(idle.applied == [:] && idle.publishedBytes == 0 && idle.warnings.isEmpty, "\(idle)")
        }
        try await b.synchronize(after: "INSERT INTO note (title) VALUES ('news')")
        #expect(await code { try await a.synchronize().value } == .corrupt, "the news are judged with all others")
    }

    @Test("It writes the damaged time of its client again half an hour later, as a verification says")
    func damagedTime() async throws {
        let fixture = try Fixture(password: "correct horse")
        let a = try await fixture.devicesWithNotes("a")[0]
        let client = try a.client()
        let path = try #require(try fixture.files().keys.first { $0.hasSuffix("RecentSyncs/\(client).recentsync") })
        try fixture.put(Data("damaged".utf8), at: path)
        _ = try await a.synchronize().value
        let problems = try await a.verify().value.problems
        #expect(problems.count == 1 && problems[0].message.contains("half an hour after"), "\(problems)")
        let later = try fixture.device("a", clockError: 31 * 60)
        _ = try await later.synchronize().value
        #expect(try await a.verify().value.problems.isEmpty)
    }
}
