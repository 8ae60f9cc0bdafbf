import FileSupport
import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

/// A synchronization that takes a second, and ends as the test says.
private actor StubSynchronization: Operation {
    private let clock: SimulatedClock
    private let outcome: Result<Synchronization, StoreSyncError>

    init(_ outcome: Result<Synchronization, StoreSyncError>, _ clock: SimulatedClock) {
        (self.outcome, self.clock) = (outcome, clock)
    }

    func main(_ context: OperationContext) async throws -> Synchronization {
        try await clock.sleep(for: .seconds(1))
        return try outcome.get()
    }
}

/// A watch in a simulation, in which the test plays the store, the remote and the synchronizations.
final class WatchScene: Sendable {
    struct State {
        var outcomes: [Result<Synchronization, StoreSyncError>] = []
        var heads: [String] = []
        var onChange: (@Sendable () -> Void)?
        /// Signals changes of the remote, if there are signals.
        var remote: AsyncStream<Void>.Continuation?
        /// Whether the store has changed without an event.
        var hasUnnoticedChange = false
        var isDiskFull = false
        /// When synchronizations and listings began, in whole seconds.
        var synchronizations: [Int] = []
        var listings: [Int] = []
        /// What the watch has told.
        var events: [String] = []
        var warnings: [String] = []
        /// Why the system doesn't watch the store.
        var refusal: (any Error & Sendable)?
        /// What watches.
        var task: Task<Void, any Error>?
    }

    let simulation: Simulation
    let state = Locked(State())
    private let supervisor: OperationSupervisor

    init(_ simulation: Simulation) {
        self.simulation = simulation
        supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation: simulation))
    }

    static func synchronization(isComplete: Bool = true, warnings: [String] = []) throws -> Synchronization {
        Synchronization(
            client: try RemoteIdentifier("me"),
            sequence: 0,
            transfer: nil,
            applied: [:],
            publishedChanges: 0,
            publishedBytes: 0,
            conflicts: 0,
            waitingFor: [],
            warnings: warnings,
            isComplete: isComplete
        )
    }

    /// Runs `body` with a scene in the order of each seed; what watches then is stopped, and doesn't fail.
    static func explore(
        seeds: Range<UInt64> = 0..<20,
        function: String = #function,
        _ body: @escaping @Sendable (WatchScene) async throws -> Void
    ) async throws {
        try await Simulation.explore(seeds: seeds, function: function) { simulation in
            let scene = WatchScene(simulation)
            try await body(scene)
            try await scene.stop()
        }
    }

    /// Starts to watch, if nothing watches yet.
    func start(signalsRemoteChanges: Bool = false, sourceLocation: SourceLocation = #_sourceLocation) throws {
        // A second watch would hide how the first one ends.
        try #require(state.withLock { $0.task == nil }, sourceLocation: sourceLocation)
        let idle = try Self.synchronization()
        let clock = simulation.clock
        let environment = WatchEnvironment(
            now: { [supervisor] in supervisor.now },
            sleep: { try await clock.sleep(for: $0) },
            random: { 0 },
            synchronize: { [state, supervisor] in
                let outcome = state.withLock { state in
                    state.synchronizations.append(Int(supervisor.now / .seconds(1)))
                    return state.outcomes.isEmpty ? .success(idle) : state.outcomes.removeFirst()
                }
                return supervisor.add(StubSynchronization(outcome, clock))
            },
            heads: { [state, supervisor] in
                state.withLock { state in
                    state.listings.append(Int(supervisor.now / .seconds(1)))
                    return state.heads
                }
            },
            watchStore: { [state] onChange in
                if let refusal = state.withLock(\.refusal) { throw refusal }
                state.withLock { $0.onChange = onChange }
                return { [state] in
                    let isOther = state.withLock { state in
                        defer { state.hasUnnoticedChange = false }
                        return state.hasUnnoticedChange
                    }
                    if isOther { onChange() }
                }
            },
            remoteChanges: { [state] in
                guard signalsRemoteChanges else { return nil }
                let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
                state.withLock { $0.remote = continuation }
                return stream
            },
            isDiskFull: { [state] in state.withLock(\.isDiskFull) }
        )
        let watch = StoreWatch(environment: environment, policy: WatchPolicy())
        let task = Task { [state] in
            for try await event in watch {
                if case .synchronized(let result) = event { state.withLock { $0.warnings += result.warnings } }
                let text =
                    switch event {
                    case .began: "began"
                    case .synchronized: "synchronized"
                    case .failed(let error, let delay): "\(error.code) \(Int(delay / .seconds(1)))"
                    }
                state.withLock { $0.events.append(text) }
            }
        }
        state.withLock { $0.task = task }
    }

    /// Cancels what watches, if it still does, and throws the error with which it ends.
    func stop() async throws {
        let task = state.withLock { $0.task.take() }
        task?.cancel()
        try await task?.value
    }

    /// Expects that what watches ends by itself, with an error of this code.
    func expectEnd(_ code: StoreSyncError.Code, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let task = try #require(state.withLock { $0.task.take() }, sourceLocation: sourceLocation)
        let error = await #expect(throws: StoreSyncError.self, sourceLocation: sourceLocation) { try await task.value }
        try #require(error?.code == code, sourceLocation: sourceLocation)
    }

    /// How the next synchronizations end; those after them change nothing.
    var outcomes: [Result<Synchronization, StoreSyncError>] {
        get { state.withLock(\.outcomes) }
        set { state.withLock { $0.outcomes = newValue } }
    }

    func changeStore() { state.withLock { $0.onChange }?() }

    func changeRemote() { state.withLock(\.remote)?.yield() }

    func pass(_ seconds: Int) async throws { try await simulation.clock.sleep(for: .seconds(seconds)) }

    var synchronizations: [Int] { state.withLock(\.synchronizations) }
    var events: [String] { state.withLock(\.events) }
}

@Suite("Watching a store", .timeLimit(.minutes(60)))
struct StoreWatchTests {
    @Test("Changes during a synchronization lead to exactly one more, and what changes nothing leads to none")
    func coalescing() async throws {
        try await WatchScene.explore { scene in
            try scene.start()
            try await scene.pass(10)
            try #require(scene.synchronizations == [0])
            for _ in 0..<5 { scene.changeStore() }
            try await scene.simulation.clock.sleep(for: .milliseconds(700))
            for _ in 0..<5 { scene.changeStore() }
            try await scene.pass(1800)
            try #require(scene.synchronizations == [0, 10, 11])
        }
    }

    @Test("While the system watches no more files, a warning says so once, and the store is checked every minute")
    func watchLimit() async throws {
        try await WatchScene.explore { scene in
            scene.state.withLock { $0.refusal = POSIXError(.ENOSPC) }
            try scene.start()
            try await scene.pass(1000)
            try #require(scene.synchronizations.count > 10)
            let warnings = scene.state.withLock(\.warnings)
            try #require(warnings.count == 1 && warnings[0].contains("fs.inotify.max_user_watches"))
            // From here on the system watches the store.
            scene.state.withLock { $0.refusal = nil }
            try await scene.pass(100)
            let count = scene.synchronizations.count
            try await scene.pass(600)
            try #require(scene.synchronizations.count == count)
            scene.changeStore()
            try await scene.pass(2)
            try #require(scene.synchronizations.count == count + 1)
        }
    }

    @Test("News of other devices lead to a synchronization, and this device's own heads don't")
    func heads() async throws {
        try await WatchScene.explore { scene in
            let other = SyncHeadName(client: try RemoteIdentifier("other"), sequence: 1, number: 2)
            let own = SyncHeadName(client: try RemoteIdentifier("me"), sequence: 1, number: 2)
            try scene.start()
            try await scene.pass(10)
            scene.state.withLock { $0.heads = [own.name, "garbage"] }
            try await scene.pass(1000)
            try #require(scene.synchronizations == [0])
            let count = scene.state.withLock(\.listings).count
            try #require(count > 15 && count < 30)
            scene.state.withLock { $0.heads = [own.name, other.name] }
            try await scene.pass(61)
            try #require(scene.synchronizations.count == 2)
        }
    }

    @Test("A listing without this device's recent sync leads to one synchronization, since the client may be removed")
    func removal() async throws {
        try await WatchScene.explore { scene in
            let own = SyncHeadName(client: try RemoteIdentifier("me"), sequence: 1, number: 2)
            try scene.start()
            try await scene.pass(10)
            scene.state.withLock { $0.heads = [own.name, "me.recentsync"] }
            try await scene.pass(1000)
            try #require(scene.synchronizations == [0])
            scene.state.withLock { $0.heads = [own.name] }
            try await scene.pass(61)
            try #require(scene.synchronizations.count == 2)
            try await scene.pass(1000)
            try #require(scene.synchronizations.count == 2)
        }
    }

    @Test("A temporary failure is told and retried, and any other ends the watch with its error")
    func failures() async throws {
        try await WatchScene.explore { scene in
            let unavailable = StoreSyncError(.remoteUnavailable, "The test's remote is away.")
            let busy = StoreSyncError(.busy, "The test's store is busy.")
            let replaced = StoreSyncError(.storeReplaced, "The test's store was replaced.")
            scene.outcomes = [.failure(unavailable), .failure(busy)]
            try scene.start()
            try await scene.pass(100)
            try #require(
                scene.events == ["began", "remoteUnavailable 1", "began", "busy 2", "began", "synchronized"]
            )
            try #require(scene.synchronizations == [0, 2, 5])
            scene.outcomes = [.failure(replaced)]
            scene.changeStore()
            try await scene.expectEnd(.storeReplaced)
        }
    }

    @Test(
        "A watch retries when what the device has seen is missing or older: it may still arrive, or be mounted",
        arguments: [
            StoreSyncError.Code.applicationMissing, .documentMissing, .identityTwice, .noUploadedStore, .rolledBack,
        ]
    )
    func arriving(code: StoreSyncError.Code) async throws {
        try await WatchScene.explore(seeds: 1..<2) { scene in
            let error = StoreSyncError(code, "The test's remote is older.")
            scene.outcomes = [.failure(error), .failure(error)]
            try scene.start()
            try await scene.pass(100)
            try #require(scene.events == ["began", "\(code) 1", "began", "\(code) 2", "began", "synchronized"])
        }
    }

    private static let fullDisks = [
        StoreSyncError(RemoteError(.noSpace, "The test's remote is full.")),
        StoreSyncError(database: DatabaseError(resultCode: .SQLITE_FULL), at: "test.sqlite"),
        StoreSyncError(writing: "test.sqlite", errno: EDQUOT),
        StoreSyncError(writing: URL(filePath: "/test.sqlite"), CocoaError(.fileWriteOutOfSpace)),
        StoreSyncError(StoreChangesError(.cannotWrite, "Full.", cause: DatabaseError(resultCode: .SQLITE_FULL))),
        failedWrite(.SQLITE_IOERR_SHMSIZE),
    ]

    private static func failedWrite(_ code: ResultCode) -> StoreSyncError {
        StoreSyncError(StoreChangesError(.cannotWrite, "Not written.", cause: DatabaseError(resultCode: code)))
    }

    @Test(
        "A watch waits for free space after its first success; before that, it ends with the error",
        arguments: fullDisks
    )
    func fullDisk(full: StoreSyncError) async throws {
        try await WatchScene.explore(seeds: 1..<2) { scene in
            try scene.start()
            try await scene.pass(10)
            scene.outcomes = [.failure(full), .failure(full)]
            scene.changeStore()
            try await scene.pass(50)
            let waits = ["began", "cannotWrite 1", "began", "cannotWrite 2", "began", "synchronized"]
            try #require(scene.events == ["began", "synchronized"] + waits)
            try await scene.stop()
            scene.outcomes = [.failure(full)]
            try scene.start()
            try await scene.expectEnd(.cannotWrite)
        }
    }

    @Test(
        "A failure that SQLite also reports for other reasons is waited for if the disk is full, and else ends a watch",
        arguments: [ResultCode.SQLITE_IOERR_WRITE, .SQLITE_IOERR_SHMOPEN, .SQLITE_CANTOPEN]
    )
    func ambiguousFailure(code: ResultCode) async throws {
        try await WatchScene.explore(seeds: 1..<2) { scene in
            try scene.start()
            try await scene.pass(10)
            let failure = Self.failedWrite(code)
            scene.state.withLock { ($0.outcomes, $0.isDiskFull) = ([.failure(failure)], true) }
            scene.changeStore()
            try await scene.pass(10)
            try #require(scene.events.suffix(4) == ["began", "cannotWrite 1", "began", "synchronized"])
            scene.state.withLock { ($0.outcomes, $0.isDiskFull) = ([.failure(failure)], false) }
            scene.changeStore()
            try await scene.expectEnd(.cannotWrite)
        }
    }

    @Test("A change of the store that the system didn't report is found after at most a minute")
    func unnoticedChange() async throws {
        try await WatchScene.explore { scene in
            try scene.start()
            try await scene.pass(1000)
            try #require(scene.synchronizations == [0])
            scene.state.withLock { $0.hasUnnoticedChange = true }
            try await scene.pass(61)
            try #require(scene.synchronizations.count == 2)
        }
    }

    @Test("A store that comes back while it's synchronized is found after the failure, and hastens the retry")
    func unnoticedReturn() async throws {
        try await WatchScene.explore { scene in
            let missing = StoreSyncError(StoreChangesError(missingStore: URL(filePath: "/test.sqlite")))
            try scene.start()
            try await scene.pass(10)
            scene.outcomes = Array(repeating: .failure(missing), count: 5)
            scene.changeStore()
            try await scene.pass(15)
            try #require(scene.events.last == "storeNotFound 8")
            scene.state.withLock { $0.hasUnnoticedChange = true }
            try await scene.pass(10)
            try #require(scene.events.suffix(3) == ["storeNotFound 16", "began", "synchronized"])
        }
    }

    private static let refusals = [RemoteError.Code.unauthorized, .notAllowed, .unsupported].map {
        StoreSyncError(RemoteError($0, "The test's remote refuses."))
    }

    @Test(
        "A watch retries after a refusal by the storage if that allowed a synchronization before; else it ends",
        arguments: refusals
    )
    func refusal(refused: StoreSyncError) async throws {
        try await WatchScene.explore(seeds: 1..<2) { scene in
            try scene.start()
            try await scene.pass(10)
            scene.outcomes = [.failure(refused)]
            scene.changeStore()
            try await scene.pass(50)
            let retry = ["began", "\(refused.code) 1", "began", "synchronized"]
            try #require(scene.events == ["began", "synchronized"] + retry)
            try await scene.stop()
            scene.outcomes = [.failure(refused)]
            try scene.start()
            try await scene.expectEnd(refused.code)
        }
    }

    @Test("The eighth refusal since the last success ends a watch, whatever else fails in between")
    func lastingRefusal() async throws {
        try await WatchScene.explore { scene in
            try scene.start()
            try await scene.pass(10)
            let unavailable = StoreSyncError(.remoteUnavailable, "The test's remote is away.")
            let seven = Array(repeating: Result<Synchronization, StoreSyncError>.failure(Self.refusals[0]), count: 7)
            scene.outcomes = seven + [.failure(unavailable)]
            scene.changeStore()
            try await scene.pass(1000)
            try #require(scene.events.last == "synchronized", "the seventh is retried")
            scene.outcomes = seven + [.failure(unavailable), .failure(Self.refusals[0])]
            scene.changeStore()
            try await scene.expectEnd(.remoteUnauthorized)
            try #require(scene.outcomes.isEmpty)
        }
    }

    @Test("What is in use is tried again after a change of the store or of the remote", arguments: [true, false])
    func inUse(isStoreChange: Bool) async throws {
        try await WatchScene.explore { scene in
            let busy = StoreSyncError(.busy, "The test's document is in use.")
            scene.outcomes = Array(repeating: .failure(busy), count: 7)
            try scene.start(signalsRemoteChanges: true)
            try await scene.pass(80)
            try #require(scene.events.last == "busy 64")
            if isStoreChange { scene.changeStore() } else { scene.changeRemote() }
            try await scene.pass(5)
            try #require(scene.events.suffix(2) == ["began", "synchronized"])
        }
    }

    @Test("A file that may not be written ends a watch", arguments: [EACCES, EROFS])
    func notAllowed(code: Int32) async throws {
        try await WatchScene.explore(seeds: 1..<2) { scene in
            try scene.start()
            try await scene.pass(10)
            scene.outcomes = [.failure(StoreSyncError(writing: "test.sqlite", errno: code))]
            scene.changeStore()
            try await scene.expectEnd(.cannotWrite)
        }
    }

    @Test("Edits that wait for files that are arriving are tried again")
    func incompleteness() async throws {
        try await WatchScene.explore { scene in
            let waiting = try WatchScene.synchronization(isComplete: false)
            scene.outcomes = [.success(waiting), .success(waiting)]
            try scene.start()
            try await scene.pass(1000)
            try #require(scene.synchronizations == [0, 2, 5])
        }
    }

    @Test("A warning that says nothing about files of other devices leads to no retry")
    func lastingWarning() async throws {
        try await WatchScene.explore { scene in
            let warned = try WatchScene.synchronization(warnings: ["The test's store refuses a row."])
            scene.outcomes = [.success(warned)]
            try scene.start()
            try await scene.pass(1000)
            try #require(scene.synchronizations == [0])
        }
    }

    @Test("A watch that is cancelled ends; during a synchronization, it cancels that and throws")
    func cancellation() async throws {
        try await WatchScene.explore { scene in
            try scene.start()
            try await scene.pass(10)
            try await scene.stop()
            try scene.start()
            try await scene.simulation.clock.sleep(for: .milliseconds(500))
            await #expect(throws: CancellationError.self) { try await scene.stop() }
            try #require(scene.events == ["began", "synchronized", "began"])
        }
    }

    @Test(
        "A synchronization that changes nothing isn't noticed as a change of the store",
        arguments: ["wal", "delete", "truncate", "persist"]
    )
    func noEcho(journalMode: String) async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        try device.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try Store.setJournalMode(journalMode, of: device.store)
        _ = try await device.synchronize().value
        let (reports, continuation) = AsyncStream.makeStream(of: Bool.self)
        let isExpected = Locked(false)
        let watch = try FileWatch(
            directory: device.store.deletingLastPathComponent().path,
            database: device.store.lastPathComponent
        ) { continuation.yield(isExpected.withLock(\.self)) }
        _ = try await device.synchronize().value
        _ = try await device.synchronize().value
        isExpected.withLock { $0 = true }
        try device.execute("INSERT INTO note (title) VALUES ('milk')")
        var iterator = reports.makeAsyncIterator()
        #expect(await iterator.next() == true)
        withExtendedLifetime(watch) {}
    }

    @Test("Two devices that watch a folder get each other's edits, and then both are quiet")
    func twoDevices() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        // Not through the manager's operations: the devices of the fixture register in their own way.
        let (results, continuation) = AsyncStream.makeStream(of: (String, Synchronization).self)
        let tasks = [a, b].map { device in
            Task {
                let environment = WatchEnvironment(
                    store: device.store,
                    document: ApplicationHierarchy(device.application).document(device.document),
                    backend: device.backend,
                    supervisor: device.supervisor
                ) { device.synchronize() }
                for try await event in StoreWatch(environment: environment, policy: WatchPolicy()) {
                    if case .synchronized(let result) = event { continuation.yield((device.name, result)) }
                }
            }
        }
        var iterator = results.makeAsyncIterator()
        var started: Set<String> = []
        while started.count < 2, let (name, _) = await iterator.next() { started.insert(name) }
        var counts: [Int] = []
        for (author, reader) in [(a, b), (b, a), (a, b)] {
            try author.execute("INSERT INTO note (title) VALUES ('of \(author.name)')")
            counts.append(0)
            while let (name, result) = await iterator.next() {
                counts[counts.count - 1] += 1
                if name == reader.name, !result.applied.isEmpty { break }
            }
        }
        for task in tasks { task.cancel() }
        for task in tasks { _ = await task.result }
        #expect(try a.titles() == ["of a", "of a", "of b"])
        #expect(try b.titles() == ["of a", "of a", "of b"])
        // The author's synchronization, the reader's, and a further one of each after the former edit.
        #expect(counts.allSatisfy { $0 <= 8 }, "\(counts)")
    }
}
