import Foundation
import Operations
import RemoteStorage
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Devices that die while they synchronize records", .timeLimit(.minutes(60)))
struct SynchronizationCrashTests {
    private struct Death: Error {}

    /// Counts the steps of a device: its requests, and the changes of its memory, its replica and its store.
    private final class Life: Sendable {
        private let state = Locked<(steps: Int, last: Int?)>((0, nil))

        func end(at step: Int?) { state.withLock { $0 = (0, step) } }

        var steps: Int { state.withLock(\.steps) }

        func step(_ name: String) throws {
            try state.withLock { state in
                state.steps += 1
                if let last = state.last, state.steps > last { throw Death() }
            }
        }
    }

    /// What a device does when it dies.
    enum Scenario: CaseIterable {
        /// It's the first to synchronize.
        case begins
        /// It joins, and has no store.
        case joins
        /// It has edits, and receives others'.
        case merges
        /// It has edits that are too large for its head.
        case publishesMuch
        /// It has edits that need several files.
        case publishesSeveralFiles
    }

    @Test(
        "F13, D13: After a death at any step, the next synchronization completes, and each edit is there once",
        arguments: Scenario.allCases
    )
    func deaths(scenario: Scenario) async throws {
        let count = try await run(scenario, dyingAt: nil)
        #expect(count > 20)
        let offset = Scenario.allCases.firstIndex(of: scenario) ?? 0
        let interval = TestDepth.choose(quick: 23, deep: 1)
        let steps = Array(stride(from: offset % interval, to: count, by: interval))
        for step in steps { _ = try await run(scenario, dyingAt: step) }
    }

    /// Runs a scenario, and returns the number of its steps.
    private func run(_ scenario: Scenario, dyingAt step: Int?) async throws -> Int {
        let fixture = try Fixture()
        let (life, comment) = (Life(), Comment(rawValue: "\(scenario), at step \(step ?? -1)"))
        let a = try fixture.device("a")
        let b = try fixture.device("b") { try life.step($0) }
        var expected: Set = ["of a"]
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try a.execute("INSERT INTO note (title) VALUES ('of a')")
        switch scenario {
        case .begins:
            try b.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
            try b.execute("INSERT INTO note (title) VALUES ('of b')")
            expected = ["of b"]
        case .joins:
            _ = try await a.synchronize().value
        case .merges, .publishesMuch, .publishesSeveralFiles:
            _ = try await a.synchronize().value
            _ = try await b.synchronize().value
            try a.execute("UPDATE note SET bytes = x'01' WHERE id = 1; INSERT INTO note (title) VALUES ('later')")
            _ = try await a.synchronize().value
            let size = scenario == .merges ? 1 : 100_000
            try b.execute("INSERT INTO note (title, bytes) VALUES ('of b', randomblob(\(size)))")
            expected = ["of a", "later", "of b"]
            if scenario == .publishesSeveralFiles {
                try b.execute("UPDATE note SET bytes = randomblob(2500000) WHERE title = 'of b'")
                try await b.recordChanges()
                try b.execute("INSERT INTO note (title, bytes) VALUES ('too large', randomblob(2500000))")
                expected.insert("too large")
            }
        }
        life.end(at: step)
        if step == nil {
            _ = try await b.synchronize().value
        } else {
            _ = try? await b.synchronize().value
        }
        let count = life.steps
        life.end(at: nil)
        _ = try await b.synchronize().value
        if scenario == .begins { try FileManager.default.removeItem(at: a.store) }
        _ = try await a.synchronize().value
        for device in [a, b] { #expect(try device.titles() == expected.sorted(), comment) }
        let report = try await a.verify().value
        #expect(report.problems.isEmpty, comment)
        return count
    }

    /// Inserts a note that needs a file of its own.
    private func insert(_ title: String, _ device: Device) async throws {
        try device.execute("INSERT INTO note (title, bytes) VALUES ('\(title)', randomblob(2500000))")
        try await device.recordChanges()
    }

    @Test(
        "An interrupted publication of several files continues after them, unless the device has other edits since",
        arguments: [false, true]
    )
    func continuation(isRestored: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (writes, limit) = (Locked(0), Locked<Int?>(nil))
        let b = try fixture.device("b")
        let a = try fixture.device("a") { step in
            guard step.hasPrefix("before write of "), step.hasSuffix(".syncchg") else { return }
            let count = writes.withLock { count in
                count += 1
                return count
            }
            if let limit = limit.withLock(\.self), count > limit { throw Death() }
        }
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, b] { _ = try await device.synchronize().value }
        let former = try ([a.store] + a.state.replicas()).map { ($0, try Data(contentsOf: $0)) }
        for title in ["1", "2", "3"] { try await insert(title, a) }
        limit.withLock { $0 = 2 }
        await #expect(throws: (any Error).self) { try await a.synchronize().value }
        writes.withLock { $0 = 0 }
        limit.withLock { $0 = nil }
        func files() throws -> Set<String> { Set(try fixture.files().keys.filter { $0.hasSuffix(".syncchg") }) }
        let created = try files()
        #expect(created.count == 2)
        if isRestored {
            for (file, bytes) in former { try bytes.write(to: file) }
        }
        try await insert("4", a)
        #expect(try await a.synchronize().value.publishedChanges == (isRestored ? 1 : 4))
        // The last two edits are in two files.
        #expect(writes.withLock(\.self) == (isRestored ? 1 : 2))
        #expect(try files().isSuperset(of: created) && files().count == (isRestored ? 3 : 4))
        #expect(try a.synchronizationMemory()?.created == nil)
        #expect(try a.synchronizationMemory()?.segments.count == (isRestored ? 1 : 4))
        for device in [b, a] { #expect(try await device.synchronize().value.warnings.isEmpty) }
        for device in [a, b] {
            let titles = try device.titles()
            #expect(titles == (isRestored ? ["4"] : ["1", "2", "3", "4"]), "\(device.name)")
        }
    }
}
