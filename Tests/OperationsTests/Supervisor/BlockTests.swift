import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Blocks and arrays of mixed operations", .timeLimit(.minutes(60)))
struct BlockTests {
    @Test("A block is an operation: it has an output, a context, an error, and can be cancelled")
    func blocks() async throws {
        let supervisor = OperationSupervisor(width: 2)
        let sum = supervisor.add(options: OperationOptions(name: "sum")) { context in
            context.reportProgress(0.5)
            return context.name.count + context.attempt
        }
        #expect(try await sum.value == 4)
        #expect(sum.progress.fractionCompleted == 1)
        let failing = supervisor.add { _ -> Int in throw ProbeError() }
        await #expect(throws: ProbeError()) { try await failing.value }
        let gate = Gate()
        let endless = supervisor.add { _ in try await gate.wait() }
        await gate.arrival()
        endless.cancel()
        _ = await endless.result
        #expect(endless.state == .cancelled)
    }

    @Test("A block runs isolated to its operation, so it never runs on the actor that added it")
    @MainActor func isolation() async throws {
        let isMain = OperationSupervisor(width: 1).add { @Sendable _ in isMainActor(#isolation) }
        #expect(try await isMain.value == false)
    }

    @Test("A block is retried, as any operation")
    func retry() async throws {
        let values = try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let options = OperationOptions(retry: RetryPolicy(maximumAttempts: 3))
            let stubborn = supervisor.add(options: options) { context in
                guard context.attempt == 3 else { throw ProbeError() }
                return context.attempt
            }
            let next = stubborn.then(options: options) { number, context in
                guard context.attempt == 2 else { throw ProbeError() }
                return number + context.attempt
            }
            return [try await stubborn.value, try await next.value]
        }
        #expect(values == [3, 5])
    }

    @Test("A block after another operation gets its output, and fails or is cancelled with it")
    func then() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let first = supervisor.add { _ in 20 }
        let doubled = first.then { number, _ in number * 2 }
        let failed = supervisor.add { _ -> Int in throw ProbeError(name: "root cause") }.then { number, _ in number }
        let cancelled = supervisor.add { _ in 1 }
        let next = cancelled.then { number, _ in number }
        cancelled.cancel()
        supervisor.isSuspended = false
        #expect(try await doubled.value == 40)
        await #expect(throws: ProbeError(name: "root cause")) { try await failed.value }
        #expect(next.state == .cancelled)
    }

    @Test("A barrier block waits for everything before it, and everything after waits for it")
    func barrier() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let journal = Journal()
        for _ in 0..<2 { supervisor.add { _ in journal.write("before") } }
        let barrier = supervisor.addBarrier { _ in
            journal.write("barrier")
            return 7
        }
        for _ in 0..<2 { supervisor.add { _ in journal.write("after") } }
        supervisor.isSuspended = false
        #expect(try await barrier.value == 7)
        try await supervisor.drain()
        #expect(journal.all == ["before", "before", "barrier", "after", "after"])
    }

    @Test("Child blocks end before their parent, and a block waits for room")
    func childrenAndRoom() async throws {
        var configuration = OperationSupervisor.Configuration()
        configuration.capacity = 1
        let supervisor = OperationSupervisor(configuration)
        let total = Locked(0)
        let parent = supervisor.add { context in
            for number in 1...3 { try context.addChild { _ in total.withLock { $0 += number } } }
        }
        let later = try await supervisor.addWhenRoom { _ in total.withLock { $0 } }
        #expect(parent.state == .finished)
        #expect(try await later.value == 6)
    }

    @Test("Operations of different types are added together: none starts before all are added")
    func mixedArray() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let journal = Journal()
        let first = supervisor.add { _ in journal.write("first") }
        let operations: [any Operation] = [
            Probe("number", journal) { _ in 1 }, Probe("text", journal) { _ in "two" },
            Probe("nothing", journal) { _ in },
        ]
        let references = supervisor.add(operations, after: [first])
        let last = supervisor.add(after: references) { _ in journal.write("last") }
        try await last.value
        #expect(references.map(\.state) == [.finished, .finished, .finished])
        let order = journal.all.filter { !$0.contains(" ") || $0.hasSuffix("main") }
        #expect(order == ["first", "number main", "text main", "nothing main", "last"])
        #expect(supervisor.add([any Operation]()).isEmpty)
    }
}

/// A function of its own, since the optimizer of Swift 6.3 crashes if `#isolation` is compared in a closure.
private func isMainActor(_ actor: (any Actor)?) -> Bool { actor === MainActor.shared }
