import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Files under the names of heads that can't be read", .timeLimit(.minutes(60)))
struct UnreadableHeadTests {
    private static let hour: TimeInterval = 60 * 60

    private func devices(in fixture: Fixture) async throws -> (a: Device, b: Device) {
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try b.execute("INSERT INTO note (title) VALUES ('of b')")
        for device in [b, a] { _ = try await device.synchronize().value }
        return (a, b)
    }

    /// Writes a file under the name of a client's head, and returns its path.
    private func writeHead(of client: String, _ fixture: Fixture) throws -> String {
        let directory = fixture.hierarchy.document(fixture.document).recentSyncs
        let path = "\(directory)/\(client)-1-99-0123456789abcdef.recentsync"
        try fixture.put(Data("of a former document".utf8), at: path)
        return path
    }

    private func exists(_ path: String, _ fixture: Fixture) -> Bool {
        FileManager.default.fileExists(atPath: fixture.share.appending(path: path).path)
    }

    @Test("It is named at each synchronization, and makes no device upload its store, however long it stays")
    func baselines() async throws {
        let fixture = try Fixture(password: "correct horse")
        _ = try await devices(in: fixture)
        let path = try writeHead(of: "x", fixture)
        var uploads: Set<Int> = []
        for day in 0...3 {
            let later = try fixture.device("a", clockError: Double(25 * day) * Self.hour)
            let warnings = try await later.synchronize().value.warnings
            #expect(warnings.count == 1 && warnings.allSatisfy { $0.contains(path) }, "\(warnings)")
            uploads.insert(try fixture.files().keys.count { $0.contains("WholeStore/") })
        }
        #expect(uploads.count == 1, "\(uploads)")
    }

    @Test(
        "A vacuum on its device replaces a damaged head, as a warning and a verification say",
        arguments: [nil, "correct horse"]
    )
    func damaged(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (a, b) = try await devices(in: fixture)
        try await b.synchronize(after: "INSERT INTO note (title) VALUES ('later')")
        let client = try b.client()
        let head = try #require(try fixture.files().first { $0.key.contains("RecentSyncs/\(client)-") })
        try fixture.put(head.value.dropLast(1), at: head.key)
        let advice = "run storesync vacuum on client \(client)'s device"
        let warnings = try await a.synchronize().value.warnings
        #expect(warnings.contains { $0.contains(head.key) && $0.contains(advice) }, "\(warnings)")
        let problems = try await a.verify().value.problems
        #expect(problems.count == 1 && problems[0].message.contains(advice), "\(problems)")
        _ = try await b.vacuum().value
        #expect(try await a.synchronize().value.warnings.isEmpty)
        #expect(try await a.verify().value.problems.isEmpty)
        #expect(try a.titles() == ["later", "of b"])
    }

    @Test("A vacuum removes its own device's after a day, and no head that can be read")
    func own() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await devices(in: fixture)
        let path = try writeHead(of: a.client(), fixture)
        _ = try await a.vacuum().value
        #expect(exists(path, fixture), "it may still be arriving")
        let late = try fixture.device("a", clockError: 25 * Self.hour)
        _ = try await late.vacuum().value
        #expect(!exists(path, fixture))
        let own = try #require(try a.synchronizationMemory()?.heads.last)
        #expect(try fixture.files().keys.contains { $0.hasSuffix("RecentSyncs/\(own)") })
        for device in [late, b] { #expect(try await device.synchronize().value.warnings.isEmpty) }
    }

    @Test("A vacuum removes a removed client's after a day, although this device has never read a head of that client")
    func removedClient() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await devices(in: fixture)
        let client = try await fixture.device("c").registerDocument().value.application.client
        let path = try writeHead(of: client.rawValue, fixture)
        _ = try await a.synchronize().value
        _ = try await a.remove(client, from: fixture.document).value
        let early = try await a.vacuum().value.warnings
        #expect(early.contains { $0.contains("client \(client), which was removed") }, "\(early)")
        #expect(exists(path, fixture))
        let late = try fixture.device("a", clockError: 25 * Self.hour)
        _ = try await late.vacuum().value
        #expect(!exists(path, fixture))
        #expect(try late.synchronizationMemory()?.removals == [client.rawValue: 0])
        for device in [late, b] { #expect(try await device.synchronize().value.warnings.isEmpty) }
    }
}
