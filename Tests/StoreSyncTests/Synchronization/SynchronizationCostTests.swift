import Operations
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("What synchronizing records costs", .timeLimit(.minutes(60)))
struct SynchronizationCostTests {
    /// The requests of an operation, and how many of them waited for each other.
    private struct Cost: Equatable, CustomStringConvertible {
        var depth: Int64
        var requests: [String]

        var description: String { "\(depth) deep: \(requests.joined(separator: ", "))" }

        func count(of kind: String) -> Int { requests.count { $0.hasPrefix(kind) } }
    }

    private let fixture: Fixture
    private let near = InMemoryBackend(capabilities: .all)

    init() async throws {
        fixture = try Fixture(password: "correct horse")
        let (a, b) = (try device("a"), try device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, b, a, b] { _ = try await device.synchronize().value }
    }

    private func device(_ name: String) throws -> Device { try fixture.device(name, backend: near) }

    /// What a synchronization of a device costs that is registered.
    private func cost(_ name: String) async throws -> Cost {
        let registration = try await cost(name) { _ = try await $0.registerDocument().value }
        var cost = try await cost(name) { _ = try await $0.synchronize().value }
        cost.depth -= registration.depth
        for request in registration.requests {
            let index = try #require(cost.requests.firstIndex(of: request), "the registration is a part of it")
            cost.requests.remove(at: index)
        }
        return cost
    }

    private func cost(_ name: String, _ body: @escaping @Sendable (Device) async throws -> Void) async throws -> Cost {
        let requests = Locked<[String]>([])
        let depth = try await fixture.depth(of: name) { [near] clock in
            DistantBackend(near, clock) { request in requests.withLock { $0.append(request) } }
        } _: {
            try await body($0)
        }
        return Cost(depth: depth, requests: requests.withLock(\.self))
    }

    @Test("Without news it takes one round trip, which lists the heads and reads the origin; nothing is written")
    func idle() async throws {
        let cost = try await cost("a")
        #expect(cost.depth == 1 && cost.requests.count == 2, "\(cost)")
        #expect(cost.count(of: "list") == 1 && cost.count(of: "read") == 1, "\(cost)")
    }

    @Test("The news of another client take a round trip more, whether they are of one synchronization or of ten")
    func news() async throws {
        for rounds in [1, 10] {
            for round in 0..<rounds {
                try device("b").execute("INSERT INTO note (title) VALUES ('\(round)')")
                _ = try await device("b").synchronize().value
            }
            let cost = try await cost("a")
            #expect(cost.depth == 2 && cost.requests.count == 3, "\(cost)")
        }
        #expect(try device("a").query("SELECT title FROM note").count == 11)
    }

    @Test("The news of five clients take as many round trips as those of one")
    func manyClients() async throws {
        let names = ["b", "c", "d", "e", "f"]
        for name in names { _ = try await device(name).synchronize().value }
        _ = try await device("a").synchronize().value
        for name in names {
            try device(name).execute("INSERT INTO note (title) VALUES ('\(name)')")
            _ = try await device(name).synchronize().value
        }
        let cost = try await cost("a")
        #expect(cost.depth == 2 && cost.requests.count == 7, "\(cost)")
        #expect(try device("a").query("SELECT title FROM note").count == names.count)
    }

    @Test("Publishing takes one exclusive write, after which the former head is removed")
    func publishing() async throws {
        try device("a").execute("INSERT INTO note (title) VALUES ('a')")
        let cost = try await cost("a")
        #expect(cost.depth == 3 && cost.requests.count == 4, "\(cost)")
        #expect(cost.count(of: "write") == 1 && cost.count(of: "removal") == 1, "\(cost)")
    }

    @Test("Edits that don't fit a head take one write more")
    func publishingMuch() async throws {
        try device("a").execute("INSERT INTO note (bytes) VALUES (randomblob(100000))")
        let cost = try await cost("a")
        #expect(cost.depth == 4 && cost.count(of: "write") == 2, "\(cost)")
        let reading = try await self.cost("b")
        #expect(reading.depth == 3 && reading.requests.count == 4, "\(reading)")
    }

    @Test("Joining takes a limited number of round trips, however many edits there are")
    func joining() async throws {
        var costs: [Cost] = []
        for (joiner, rounds) in [("c", 1), ("d", 30)] {
            for round in 0..<rounds {
                let device = try device(round.isMultiple(of: 2) ? "a" : "b")
                try device.execute("INSERT INTO note (title, bytes) VALUES ('\(round)', randomblob(40000))")
                _ = try await device.synchronize().value
            }
            costs.append(try await cost(joiner) { _ = try await $0.synchronize().value })
            _ = try await device("a").synchronize().value
            let titles = try device("a").query("SELECT title FROM note ORDER BY id").count
            #expect(try device(joiner).query("SELECT title FROM note").count == titles)
        }
        // With the registration of the device.
        for cost in costs { #expect(cost.depth <= 22, "\(cost)") }
    }
}
