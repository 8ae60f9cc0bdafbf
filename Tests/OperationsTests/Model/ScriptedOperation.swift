import OperationsTesting
import ThreadSupport

@testable import Operations

/// An operation that acts at random: it pauses, awaits others, adds children, reports progress, fails.
///
/// It records every phase, and complains about everything that it should never see.
actor ScriptedOperation: Operation {
    struct Failure: Error {}

    let number: Int
    let fixture: SupervisorFixture
    private var generator: SplitMix64

    init(_ number: Int, _ fixture: SupervisorFixture) {
        self.number = number
        self.fixture = fixture
        generator = SplitMix64(seed: fixture.seed &* 1000 &+ UInt64(number))
        fixture.traces.follow(self, as: "operation \(number)")
    }

    // MARK: Phases

    func operationDidStart(_ context: OperationContext) async { await phase(.start) }
    func operationDidMakeProgress(_ progress: OperationProgress) async {
        await phase(.progress(progress.fractionCompleted))
    }
    func operationDidComplete(_ output: Int) async { await phase(.end(.finished)) }
    func operationDidFail(_ error: any Error) async { await phase(.end(.failed)) }
    func operationWasCancelled() async { await phase(.end(.cancelled)) }

    private func phase(_ phase: SupervisorFixture.Phase) async {
        fixture.begin(phase, of: number)
        // The suspension gives other phases the chance to overlap this one.
        await Task.yield()
        fixture.end(phase, of: number)
    }

    // MARK: Work

    func main(_ context: OperationContext) async throws -> Int {
        fixture.beginMain(number)
        enter(context)
        do {
            for _ in 0..<Int.random(in: 0...5, using: &generator) { try await step(context) }
            if generator.oneIn(6) { throw Failure() }
            if generator.oneIn(3) { try Task.checkCancellation() }
        } catch {
            leave()
            fixture.mainFailed(number)
            throw error
        }
        leave()
        return number
    }

    private func enter(_ context: OperationContext) {
        fixture.enter(number)
        check(context)
    }

    private func leave() { fixture.leave(number) }

    private func check(_ context: OperationContext) {
        guard Task.isCancelled || context.isCancellationRequested else {
            if fixture.isParentCancelled(number) { fixture.complain(number, "isn't cancelled with its parent") }
            return
        }
        if !context.isCancellationRequested { fixture.complain(number, "sees the cancellation of another operation") }
        if !fixture.mayBeCancelled(number) { fixture.complain(number, "was cancelled without a reason") }
    }

    private func step(_ context: OperationContext) async throws {
        switch Int.random(in: 0..<12, using: &generator) {
        case 0, 1: await Task.yield()
        case 2: context.reportProgress(Double.random(in: -0.2...1.2, using: &generator))
        case 3, 4: try await pause(context)
        case 5, 6, 7: try await awaitAnother(context)
        case 8, 9: try addChild(context)
        case 10 where fixture.allowsRoomWaits: try await addWhenRoom(context)
        default: try Task.checkCancellation()
        }
        check(context)
    }

    private func pause(_ context: OperationContext) async throws {
        let duration = Duration.milliseconds(Int.random(in: 0...50, using: &generator))
        let isUncooperative = fixture.isUncooperative(number)
        leave()
        defer { enter(context) }
        try await context.pause(awaiting: "an answer") {
            guard isUncooperative else { return try await context.clock.sleep(for: duration) }
            let executor = fixture.simulation.executor
            await Task.detached(executorPreference: executor) { try? await context.clock.sleep(for: .seconds(60)) }
                .value
        }
    }

    private func awaitAnother(_ context: OperationContext) async throws {
        guard let target = fixture.anyHandle(using: &generator) else { return }
        leave()
        defer { enter(context) }
        do {
            _ = try await target.value
        } catch let error as OperationError where error.code == .wouldDeadlock {
            fixture.count(\.refusedWaits)
        } catch is CancellationError where !Task.isCancelled {
            // The other operation was cancelled.
        } catch is Failure where generator.oneIn(2) {
            // The other operation failed, and this one tolerates it.
        }
    }

    private func addChild(_ context: OperationContext) throws {
        let addition = fixture.makeAddition(to: fixture.supervisor(of: number), parent: number, using: &generator)
        do {
            let child = ScriptedOperation(addition.number, fixture)
            let handle = try context.addChild(child, after: addition.references, options: addition.options)
            fixture.register(addition, handle)
        } catch let error as OperationError where error.code == .wouldDeadlock {
            fixture.forget(addition)
            fixture.count(\.refusedChildren)
        } catch let error as OperationError where error.code == .parentEnded && fixture.isUncooperative(number) {
            // The operation was abandoned.
            fixture.forget(addition)
        } catch {
            fixture.complain(number, "can't add a child: \(error)")
        }
    }

    private func addWhenRoom(_ context: OperationContext) async throws {
        let supervisor = fixture.supervisor(of: number)
        let addition = fixture.makeAddition(to: supervisor, parent: nil, waitsForRoom: true, using: &generator)
        leave()
        defer { enter(context) }
        do {
            let handle = try await fixture.supervisors[supervisor].addWhenRoom(
                ScriptedOperation(addition.number, fixture),
                after: addition.references,
                options: addition.options
            )
            fixture.register(addition, handle)
        } catch let error as OperationError where error.code == .wouldDeadlock {
            fixture.forget(addition)
            fixture.count(\.refusedRoom)
        } catch {
            fixture.forget(addition)
            throw error
        }
    }
}
