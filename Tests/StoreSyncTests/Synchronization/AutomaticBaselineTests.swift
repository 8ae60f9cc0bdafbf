import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Baselines that devices write by themselves", .timeLimit(.minutes(60)))
struct AutomaticBaselineTests {
    /// Publishes an edit; two of them are reason enough for a baseline.
    private func edit(_ device: Device) async throws -> Synchronization {
        try device.execute("UPDATE note SET bytes = randomblob(600000)")
        return try await device.synchronize().value
    }

    /// The files of stores that a device has uploaded.
    private func uploads(_ device: Device, _ fixture: Fixture) throws -> Set<String> {
        let client = try device.client()
        return Set(try fixture.files().keys.filter { $0.contains("WholeStore/\(client)/") })
    }

    @Test("A baseline is announced at once, so that other devices upload none for the same edits")
    func announcement() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        for _ in 0..<2 { #expect(try await edit(a).warnings.isEmpty) }
        #expect(try a.synchronizationMemory()?.baselines.count == 1)
        let joiner = try fixture.device("joiner")
        for device in [b, joiner] {
            _ = try await device.synchronize().value
            #expect(try device.synchronizationMemory()?.baselines == a.synchronizationMemory()?.baselines)
            #expect(try uploads(device, fixture).isEmpty)
        }
    }

    @Test(
        "A device that pulled its store before the document or the application was created again writes baselines of it",
        arguments: [false, true]
    )
    func createdAgain(isApplication: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try a.execute("INSERT INTO note (title) VALUES ('first')")
        _ = try await a.push().value
        _ = try await b.pull().value
        if isApplication {
            _ = try await a.removeApplication().value
            _ = try await a.push().value
            _ = try await b.supervisor.add(b.registration(registersAgain: true)).value
        } else {
            _ = try await a.removeDocument().value
            _ = try await a.push(recreates: true).value
        }
        _ = try await a.synchronize().value
        try b.execute("INSERT INTO note (title) VALUES ('of b')")
        _ = try await b.synchronize { $0.takenSide = .both }.value
        #expect(try await b.vacuum().value.isBaselineWritten)
        let former = try uploads(b, fixture)
        for _ in 0..<2 { #expect(try await edit(b).warnings.isEmpty) }
        #expect(try !uploads(b, fixture).isSubset(of: former))
        #expect(try await b.verify().value.problems.isEmpty)
    }

    @Test("A baseline that no head names is found on the remote before another one is written")
    func lookUp() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        for _ in 0..<2 { _ = try await edit(a) }
        _ = try await b.synchronize().value
        // As if the first device had died before it published a head that names its baseline.
        var memory = try #require(try b.synchronizationMemory())
        (memory.baselines, memory.bytesSinceBaseline) = ([], 10 << 20)
        try b.setSynchronizationMemory(memory)
        #expect(try await b.synchronize().value.warnings.isEmpty)
        #expect(try uploads(b, fixture).isEmpty)
        #expect(try b.synchronizationMemory()?.baselines == a.synchronizationMemory()?.baselines)
        #expect(try b.synchronizationMemory()?.bytesSinceBaseline == 0)
    }

    @Test("A baseline that can't be written is tried again after an hour, then after two, and delays no other edit")
    func failure() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (isFull, attempts) = (Locked(false), Locked(0))
        let hook: @Sendable (String) throws -> Void = { step in
            guard isFull.withLock(\.self), step.hasPrefix("before write of "), step.contains("/WholeStore/") else {
                return
            }
            attempts.withLock { $0 += 1 }
            throw RemoteError(.noSpace, "The test's storage is full.")
        }
        _ = try await fixture.devicesWithNotes("a")
        isFull.withLock { $0 = true }
        /// Publishes an edit when hours have passed, and returns whether a baseline was tried.
        func tries(after hours: Double) async throws -> Bool {
            let former = attempts.withLock(\.self)
            let result = try await edit(fixture.device("a", clockError: hours * 60 * 60, hook: hook))
            #expect(result.publishedChanges == 1)
            let isTried = attempts.withLock(\.self) > former
            #expect(result.warnings.contains { $0.contains("couldn't be shortened") } == isTried, "\(result.warnings)")
            return isTried
        }
        #expect(try await !tries(after: 0), "one edit is no reason")
        var tried: [Double] = []
        for hours in [0, 0.5, 1.5, 2.5, 3.4, 3.7] {
            if try await tries(after: hours) { tried.append(hours) }
        }
        #expect(tried == [0, 1.5, 3.7])
        isFull.withLock { $0 = false }
        let a = try fixture.device("a", clockError: 8 * 60 * 60)
        #expect(try await edit(a).warnings.isEmpty)
        #expect(try a.synchronizationMemory()?.baselines.count == 1)
        #expect(try a.synchronizationMemory()?.failedBaseline == nil)
    }

    @Test("A baseline that was written isn't taken for a failure if it can't be announced at once")
    func lateAnnouncement() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        _ = try await edit(a)
        let heads = Locked(0)
        let failing = try fixture.device("a") { step in
            guard step.hasPrefix("before write of "), let name = step.split(separator: "/").last,
                SyncHeadName(String(name)) != nil
            else { return }
            let count = heads.withLock { count in
                count += 1
                return count
            }
            // The first one has the edit.
            if count == 2 { throw RemoteError(.noSpace, "The test's storage is full.") }
        }
        let warnings = try await edit(failing).warnings
        #expect(warnings.count == 1 && warnings[0].contains("tells other devices"), "\(warnings)")
        let memory = try #require(try a.synchronizationMemory())
        #expect(memory.failedBaseline == nil && memory.baselines.count == 1)
        #expect(try await a.synchronize().value.warnings.isEmpty)
        _ = try await b.synchronize().value
        #expect(try b.synchronizationMemory()?.baselines == memory.baselines)
        #expect(try uploads(b, fixture).isEmpty)
    }

    @Test("The wait after failures of baselines doubles up to a day")
    func waits() throws {
        var memory = SynchronizationMemory(origin: UUID(), client: try RemoteIdentifier("client"))
        let now = Date(timeIntervalSince1970: 1_000_000)
        var hours: [Double] = []
        for _ in 0..<7 {
            memory.noteFailedBaseline(at: now)
            hours.append((memory.failedBaseline?.wait ?? 0) / 3600)
        }
        #expect(hours == [1, 2, 4, 8, 16, 24, 24])
        #expect(memory.waitsAfterFailedBaseline(at: now + 86_399) && !memory.waitsAfterFailedBaseline(at: now + 86_400))
    }

    @Test("A vacuum whose baseline can't be written removes what is superfluous, and then fails")
    func vacuumOfFullStorage() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        func write(by device: Device) async throws {
            try device.execute("INSERT INTO note (title, bytes) VALUES ('\(device.name)', randomblob(70000))")
            _ = try await device.synchronize().value
        }
        for _ in 0..<2 {
            try await write(by: a)
            #expect(try await a.vacuum().value.isBaselineWritten)
        }
        // It has seen the edits now, and its own is reason for another baseline.
        try await write(by: b)
        let client = try a.client()
        func segments() throws -> Int { try fixture.files().keys.count { $0.contains("SyncChanges/\(client)/") } }
        #expect(try segments() == 2)
        let full = try fixture.device("a") { step in
            guard step.hasPrefix("before write of "), step.contains("/WholeStore/") else { return }
            throw RemoteError(.noSpace, "The test's storage is full.")
        }
        #expect(await code { try await full.vacuum().value } == .cannotWrite)
        #expect(try segments() == 1)
        #expect(try await a.vacuum().value.isBaselineWritten)
        let joiner = try fixture.device("joiner")
        for device in [joiner, a, b] { _ = try await device.synchronize().value }
        for device in [joiner, a, b] {
            #expect(try device.titles() == ["a", "a", "b", "first"])
        }
    }

    @Test("While a silent device keeps the log, baselines are written at growing intervals")
    func silentDevice() async throws {
        let fixture = try Fixture()
        let all = try await fixture.devicesWithNotes("a", "silent")
        let a = all[0]
        var edits: [Int] = []
        for number in 1...6 {
            let newest = try a.synchronizationMemory()?.baselines.first
            try a.execute("UPDATE note SET bytes = randomblob(1100000)")
            #expect(try await a.synchronize().value.warnings.isEmpty)
            if try a.synchronizationMemory()?.baselines.first != newest { edits.append(number) }
        }
        // Each edit is as large as the store.
        #expect(edits.first == 1 && (2...4).contains(edits.count), "\(edits)")
    }

    @Test(
        "All baselines together have at most some times the size of the last one, however long a device is silent",
        arguments: [256, 512, 767] as [UInt64],
        // Of many small edits the number counts.
        [(100, 20_000), (100_000, 2_000)]
    )
    func uploads(patience: UInt64, edits: (bytes: Int64, count: UInt64)) {
        let storeBytes: Int64 = 100_000
        var (log, since) = ((sets: UInt64(0), bytes: Int64(0)), (count: UInt64(0), bytes: Int64(0)))
        var baselines: [Int64] = []
        for _ in 0..<edits.count {
            (log.sets, log.bytes) = (log.sets + 1, log.bytes + edits.bytes)
            (since.count, since.bytes) = (since.count + 1, since.bytes + edits.bytes)
            guard LogGrowth(since: since, in: log, besides: storeBytes).isDue(for: patience) else { continue }
            baselines.append(storeBytes + log.bytes)
            since = (0, 0)
        }
        let total = baselines.reduce(0, +)
        #expect(baselines.count >= 4 && total < 10 * (baselines.last ?? 0), "\(baselines.count): \(total)")
    }

    @Test("Without a silent device, 256 edits or a quarter of the store's size are reason for a baseline")
    func usualGrowth() {
        func isDue(_ count: UInt64, _ bytes: Int64) -> Bool {
            LogGrowth(since: (count, bytes), in: (count, bytes), besides: 8 << 20).isDue(for: 256)
        }
        #expect(!isDue(255, 2 << 20) && isDue(256, 1) && isDue(1, 2 << 20 + 1) && !isDue(1, 2 << 20))
    }

    @Test("Devices that haven't written the newest baseline wait for different numbers of edits")
    func patience() throws {
        func sets(_ client: String, hasWrittenNewest: Bool = false) throws -> UInt64 {
            SynchronizationOperation.setsPerBaseline(
                of: try RemoteIdentifier(client),
                hasWrittenNewest: hasWrittenNewest
            )
        }
        let clients = (0..<8).map { "client-\($0)" }
        let numbers = try clients.map { try sets($0) }
        #expect(Set(numbers).count == clients.count && numbers.allSatisfy { (512..<768).contains($0) }, "\(numbers)")
        #expect(try clients.map { try sets($0) } == numbers)
        #expect(try sets(clients[0], hasWrittenNewest: true) == 256)
    }
}
