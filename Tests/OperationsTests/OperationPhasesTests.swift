import Foundation
import Logging
import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("The phases and the context of an operation", .timeLimit(.minutes(60)))
struct OperationPhasesTests {
    @Test(
        "P1 P2 P3 P5 P7 P8: Start, main and complete are called in this order; returning from main ends the operation"
    )
    func finishing() async throws {
        let journal = Journal()
        let value = try await Probe("a", journal) { _ in 42 }.run()
        #expect(value == 42)
        #expect(journal.all == ["a start", "a start over", "a main", "a complete", "a complete over"])
    }

    @Test("P9 P22: An error that main throws fails the operation, whose handle has the error")
    func failing() async {
        let journal = Journal()
        let handle = OperationSupervisor().add(Probe("a", journal) { _ in throw ProbeError() })
        await #expect(throws: ProbeError.self) { try await handle.value }
        #expect(handle.state == .failed)
        #expect(handle.error as? ProbeError == ProbeError())
        #expect(journal.all.suffix(2) == ["a fail", "a fail over"])
    }

    @Test("P10: operationWasCancelled is called for an operation cancelled midway, in a task that isn't cancelled")
    func cancelling() async {
        actor Careful: Operation {
            let gate: Gate
            let journal: Journal
            init(_ gate: Gate, _ journal: Journal) { (self.gate, self.journal) = (gate, journal) }
            func main(_ context: OperationContext) async throws { try await gate.wait() }
            func operationWasCancelled() async { journal.write("cancelled, cleanup can await: \(!Task.isCancelled)") }
        }
        let (gate, journal) = (Gate(), Journal())
        let handle = OperationSupervisor().add(Careful(gate, journal))
        await gate.arrival()
        handle.cancel()
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.value }
        #expect(handle.isCancelled)
        #expect(handle.isEnded)
        #expect(journal.all == ["cancelled, cleanup can await: true"])
    }

    @Test("P2 P6 P13: A listener gets the start, progress and the end, in this order")
    func events() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let handle = supervisor.add(Probe { context in context.reportProgress(0.5) })
        let events = handle.events
        supervisor.isSuspended = false
        var heard: [OperationEvent] = []
        for await event in events { heard.append(event) }
        #expect(heard.first == .started)
        #expect(heard.last == .ended(.finished))
        #expect(heard.contains(.progress(OperationProgress(fractionCompleted: 0.5))))
        var late: [OperationEvent] = []
        for await event in handle.events { late.append(event) }
        #expect(late == [.ended(.finished)])
    }

    @Test("An operation that pauses again before its reader knows that it resumed tells first that it resumed")
    func orderOfEvents() async throws {
        let events = try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, width: 1))
            let clock = simulation.clock
            let handle = supervisor.add { context in
                try await context.pause(awaiting: "an answer") { try await clock.sleep(for: .seconds(1)) }
            }
            let events = handle.events
            let other = supervisor.add { _ in try await clock.sleep(for: .seconds(2)) }
            // The end of the other operation has granted its slot, and the handler is called before that takes effect.
            other.whenEnded {
                #expect(handle.state == .executing)
                supervisor.core.withBoard { $0.pause(handle.record, "another answer") }
            }
            try await handle.value
            return events
        }
        let heard: [OperationEvent] = await events.reduce(into: []) { $0.append($1) }
        #expect(
            heard == [
                .started, .paused("an answer"), .resumed, .paused("another answer"), .ended(.finished),
            ]
        )
    }

    @Test("A handle that joined an operation has ended when its reader is told of the end")
    func endOfJoinedHandle() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let handle = supervisor.add(Probe { _ in }, options: OperationOptions(coalescingKey: "probe"))
        let events = handle.events
        // Cancelled in the same decision as the operation, and before it.
        supervisor.add { _ in }.whenEnded {
            // As another thread does that has decided something at this moment.
            supervisor.core.deliverEvents()
            #expect(handle.error == nil)
            #expect(supervisor.core.withBoard { _ in handle.record.extras?.listeners.count } == 1)
        }
        supervisor.cancelAll()
        #expect(handle.error is CancellationError)
        #expect(await events.reduce(into: []) { $0.append($1) } == [OperationEvent.ended(.cancelled)])
    }

    @Test("F18: In the ending phase the handle already shows the outcome")
    func endedBeforeTold() async throws {
        actor Nosy: Operation {
            let seen = Locked<OperationState?>(nil)
            let handle = Locked<OperationHandle<Void>?>(nil)
            func main(_ context: OperationContext) async throws {}
            func operationDidComplete(_ output: Void) async {
                let state = handle.withLock { $0 }?.state
                seen.withLock { $0 = state }
            }
        }
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let nosy = Nosy()
        let handle = supervisor.add(nosy)
        nosy.handle.withLock { $0 = handle }
        supervisor.isSuspended = false
        try await handle.value
        #expect(nosy.seen.withLock { $0 } == .finished)
        nosy.handle.withLock { $0 = nil }
    }

    @Test("P11 P26: Progress is delivered, the last value at the latest when main is over; only finishing reaches 1")
    func progress() async throws {
        let journal = Journal()
        let handle = OperationSupervisor().add(
            Probe("a", journal) { context in
                for step in 1...1000 { context.reportProgress(Double(step) / 1000) }
            }
        )
        try await handle.value
        let reported = journal.all.filter { $0.hasPrefix("a progress") && !$0.hasSuffix("over") }
        #expect(reported.last == "a progress \(1.0.nextDown)")
        #expect(handle.progress.fractionCompleted == 1)
    }

    @Test("P4 P19: main runs on the main actor if it is declared @MainActor")
    func mainThread() async throws {
        actor Painter: Operation {
            @MainActor func main(_ context: OperationContext) async throws -> Bool { paint() }
            // In a synchronous function, because the check isn't available in an asynchronous one.
            @MainActor private func paint() -> Bool {
                MainActor.preconditionIsolated()
                return true
            }
        }
        #expect(try await OperationSupervisor().add(Painter()).value)
    }

    @Test("P18 P25 P28: The context has the user info, the client's identifier and the background option")
    func options() async throws {
        let options = OperationOptions(
            name: "named",
            userInfo: ["answer": 42],
            clientIdentifier: "client-1",
            mayContinueInBackground: true
        )
        let seen = Probe { context in
            (
                context.name, context.userInfo["answer"] as? Int, context.clientIdentifier,
                context.mayContinueInBackground, context.isCancellationRequested
            )
        }
        let handle = OperationSupervisor().add(seen, options: options)
        let value = try await handle.value
        #expect(value == ("named", 42, "client-1", true, false))
        #expect(handle.userInfo["answer"] as? Int == 42)
    }

    @Test("P23 P24: The temporary directory is the run's own, private, lazy, and removed however the run ends")
    func temporaryDirectory() async throws {
        var places: Set<URL> = []
        for ending in ["finish", "fail", "cancel"] {
            // Expected outside of the operation: issues in it don't belong to this test.
            let place = Locked<URL?>(nil)
            let second = Locked<URL?>(nil)
            let mode = Locked<Int?>(nil)
            let handle = OperationSupervisor().add(
                Probe { context in
                    let first = try await context.temporaryDirectory()
                    let again = try await context.temporaryDirectory()
                    let attributes = try context.fileManager.attributesOfItem(atPath: first.path)
                    try Data("x".utf8).write(to: first.appending(path: "file"))
                    place.withLock { $0 = first }
                    second.withLock { $0 = again }
                    mode.withLock { $0 = attributes[.posixPermissions] as? Int }
                    if ending == "fail" { throw ProbeError() }
                    if ending == "cancel" { throw CancellationError() }
                }
            )
            _ = await handle.result
            let url = try #require(place.withLock { $0 })
            #expect(second.withLock { $0 } == url)
            #expect(mode.withLock { $0 } == 0o700)
            #expect(!FileManager.default.fileExists(atPath: url.path), "\(ending)")
            #expect(url.path.hasPrefix(FileManager.default.temporaryDirectory.path))
            places.insert(url)
        }
        #expect(places.count == 3)
        let parent = FileManager.default.temporaryDirectory.appending(path: "lazy-\(UUID().uuidString)")
        let supervisor = OperationSupervisor(.init(temporaryDirectory: parent))
        let exists = supervisor.add(Probe { _ in FileManager.default.fileExists(atPath: parent.path) })
        #expect(try await !exists.value)
    }

    @Test("P17: An operation that has ended is released; the handle keeps only its output")
    func noCycle() async throws {
        weak var weakOperation: Probe<Int>?
        let handle: OperationHandle<Int>
        do {
            let operation = Probe { _ in 7 }
            weakOperation = operation
            handle = OperationSupervisor().add(operation)
        }
        #expect(try await handle.value == 7)
        try await OperationSupervisor().drain()
        #expect(weakOperation == nil)
    }

    @Test("The logger carries the operation's identifier")
    func logger() async throws {
        let logger = Logger(label: "test") { StreamLogHandler.standardError(label: $0) }
        let operation = Probe { context in (context.id, context.logger[metadataKey: "operation.id"]) }
        let (id, metadata) = try await operation.run(configuration: .init(logger: logger))
        #expect(metadata == "\(id)")
    }

    @Test("run() throws what main throws, and CancellationError when the task is cancelled")
    func runAlone() async throws {
        await #expect(throws: ProbeError.self) { try await Probe { _ in throw ProbeError() }.run() }
        let gate = Gate()
        let task = Task { try await Probe { _ in try await gate.wait() }.run() }
        await gate.arrival()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test("Adding the same operation twice traps")
    func addedTwice() async {
        await #expect(processExitsWith: .failure) {
            let supervisor = OperationSupervisor(.init(isSuspended: true))
            let operation = Probe { _ in 1 }
            supervisor.add(operation)
            supervisor.add(operation)
        }
    }
}
