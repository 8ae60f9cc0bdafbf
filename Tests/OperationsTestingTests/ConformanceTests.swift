import Foundation
import Operations
import OperationsTesting
import Testing
import ThreadSupport

private struct Refused: Error {
    var cause: any Error
}

/// An operation that does everything an operation can do, and keeps all promises.
private actor Exemplary: Operation {
    private var log: [String] = []

    func main(_ context: OperationContext) async throws -> Int {
        let directory = try await context.temporaryDirectory()
        try Data("draft".utf8).write(to: directory.appending(path: "draft"))
        for step in 0..<4 {
            context.reportProgress(Double(step) / 4)
            try await context.clock.sleep(for: .seconds(10))
        }
        try await context.pause(awaiting: "an answer") { try await Task.sleep(for: .seconds(5)) }
        return try await withThrowingTaskGroup { group in
            for number in 0..<3 {
                group.addTask {
                    try await Task.sleep(for: .seconds(number))
                    return number
                }
            }
            return try await group.reduce(0, +)
        }
    }

    func operationDidStart(_ context: OperationContext) async {
        await Task.yield()
        log.append("start")
    }

    func operationDidMakeProgress(_ progress: OperationProgress) async {
        await Task.yield()
        log.append("\(progress.fractionCompleted)")
    }

    func operationWasCancelled() async {
        await Task.yield()
        log.append("cancelled")
    }
}

@Suite("The conformance suite of operations", .timeLimit(.minutes(60)))
struct ConformanceTests {
    /// Checks an operation with the main `body`, which must not pass, and returns the error.
    private func failure(
        seeds: Range<UInt64> = 0..<2,
        grace: Duration = .seconds(10),
        _ body: @escaping @Sendable (OperationContext) async throws -> Void
    ) async -> SimulationError? {
        do {
            let report = try await OperationConformance.check(seeds: seeds, limits: .init(steps: 2_000, grace: grace)) {
                _ in
                Work(body)
            }
            Issue.record("it passed: \(report)")
            return nil
        } catch {
            return error as? SimulationError
        }
    }

    @Test("An operation that keeps its promises passes, wherever it is cancelled")
    func exemplary() async throws {
        let report = try await OperationConformance.check { _ in Exemplary() }
        #expect(report.undisturbedRuns == 5)
        #expect(report.cancelledRuns > 100, "\(report)")
        #expect(report.endings[.cancelled] ?? 0 > 100, "\(report)")
        #expect(report.endings[.failed] == nil, "\(report)")
        #expect(report.escapes.isEmpty, "\(report)")
    }

    @Test("The report of an operation that works outside the simulation says that its runs can't be replayed")
    func escape() async throws {
        let report = try await OperationConformance.check(seeds: 0..<2, limits: .init(grace: .seconds(60))) { _ in
            Work { _ in try await runBlocking(on: BlockingExecutor.shared) {} }
        }
        #expect(report.escapes.keys.sorted() == [0, 1])
        #expect(report.description.contains("can't be replayed: with seed 0"))
    }

    @Test("An operation that fails with its own error passes")
    func failing() async throws {
        let report = try await OperationConformance.check { _ in
            Work<Void> { context in
                try await context.clock.sleep(for: .seconds(1))
                throw Refused(cause: CocoaError(.fileNoSuchFile))
            }
        }
        #expect(report.endings[.failed] ?? 0 > 4, "\(report)")
    }

    @Test("An operation that ignores its cancellation is caught, whether it spins, waits or sleeps")
    func ignoresCancellation() async throws {
        let spins = await failure { context in
            repeat { try? await context.clock.sleep(for: .seconds(1)) } while context.isCancellationRequested
        }
        #expect(spins?.code == .tooManySteps)
        #expect(spins?.message.contains("the operation doesn't end") == true, "\(String(describing: spins))")
        #expect(spins?.message.contains("cancelled before its job") == true)
        #expect(spins?.description.contains("SIMULATION_SEED=0") == true)

        let waits = await failure(grace: .milliseconds(500)) { context in
            guard context.isCancellationRequested else { return await Task.yield() }
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        }
        #expect(waits?.code == .waitingOutside)

        let sleeps = await failure { _ in
            await Task { _ = try? await Task.sleep(for: .seconds(3600)) }.value
        }
        #expect(sleeps?.code == .promiseBroken)
        #expect(sleeps?.message.contains("of simulated time to end") == true, "\(String(describing: sleeps))")
    }

    @Test("An operation that wraps its CancellationError in another error is caught")
    func wrapsCancellation() async throws {
        let error = await failure { context in
            do {
                try await context.clock.sleep(for: .seconds(1))
            } catch {
                throw Refused(cause: error)
            }
        }
        #expect(error?.code == .promiseBroken)
        #expect(
            error?.message.contains("it failed instead of ending as cancelled") == true,
            "\(String(describing: error))"
        )
        #expect(error?.message.contains("Refused") == true)
    }

    @Test("An operation that ends as cancelled although it wasn't cancelled is caught")
    func cancelsItself() async throws {
        let error = await failure { _ in throw CancellationError() }
        #expect(error?.message.hasPrefix("left alone, it ended as cancelled") == true, "\(String(describing: error))")
    }

    @Test("An operation that leaves a file beside its temporary directory is caught")
    func leavesFiles() async throws {
        let error = await failure { context in
            let directory = try await context.temporaryDirectory()
            let beside = directory.deletingLastPathComponent().appending(path: "left-behind")
            try Data().write(to: beside)
            try await context.clock.sleep(for: .seconds(1))
            try FileManager.default.removeItem(at: beside)
        }
        #expect(error?.message.contains("it left left-behind in the") == true, "\(String(describing: error))")
        #expect(error?.message.contains("cancelled before its job") == true)
    }

    @Test("An operation whose task outlives it and reports progress, or sleeps, is caught")
    func outlivesItself() async throws {
        let late = await failure { context in
            Task {
                await Task.yield()
                context.reportProgress(0.5)
            }
        }
        #expect(
            late?.message.contains("reported progress after its main was over") == true,
            "\(String(describing: late))"
        )
        let sleeper = await failure { context in
            Task { while !Task.isCancelled { try await context.clock.sleep(for: .seconds(1)) } }
        }
        #expect(sleeper?.message.contains("sleeps on after its end") == true, "\(String(describing: sleeper))")
    }

    @Test("An error from creating the operation is rethrown")
    func makingFails() async {
        await #expect(throws: Refused.self) {
            try await OperationConformance.check { _ -> Exemplary in throw Refused(cause: CancellationError()) }
        }
    }
}
