import Synchronization
import ThreadSupport

/// The supervisor's data plane: the scheduler's state under one lock, the records, and the workers that run operations.
///
/// Every event is decided under the lock and acted on outside it. A worker is one task that runs operation after
/// operation, since a task for each costs more than the operation. Cancelling an operation cancels its worker's task, and
/// so *poisons* the worker: it takes no further operation, or that one would find itself cancelled.
final class SchedulerCore: Sendable {
    let environment: OperationEnvironment
    private let shared: Locked<Shared>

    private struct Shared {
        var scheduler: SchedulerState
        var records: [OperationID: OperationRecord] = [:]
        var workers: [OperationID: Worker] = [:]
        var resumptions: [OperationID: CheckedContinuation<Void, Never>] = [:]
        var drainWaiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        var nextWaiter: UInt64 = 0
        var total = 0
        var completed = 0
        var fraction = 0.0
    }

    init(_ configuration: OperationSupervisor.Configuration) {
        environment = OperationEnvironment(configuration)
        shared = Locked(
            Shared(scheduler: SchedulerState(width: configuration.width, isSuspended: configuration.isSuspended))
        )
    }

    /// What is to be done outside the lock.
    private struct Actions {
        var workers: [(Worker, OperationRecord)] = []
        var resumptions: [CheckedContinuation<Void, Never>] = []
        var drained: [CheckedContinuation<Void, any Error>] = []
    }

    private func perform(_ actions: Actions) {
        for (worker, record) in actions.workers { start(worker, with: record) }
        for resumption in actions.resumptions { resumption.resume() }
        for waiter in actions.drained { waiter.resume() }
    }

    // MARK: Adding

    /// Adds operations with what they depend on, in order and at once: none starts before all are in.
    func add(_ batch: [(record: OperationRecord, dependencies: [OperationDependency])]) {
        var foreign: [(OperationRecord, OperationDependency)] = []
        var unlucky: [(OperationRecord, any Error)] = []
        let becameReady = shared.withLock { shared -> [OperationRecord] in
            var becameReady: [OperationRecord] = []
            for (record, dependencies) in batch {
                if shared.records.isEmpty { (shared.total, shared.completed, shared.fraction) = (0, 0, 0) }
                shared.total += 1
                shared.records[record.id] = record
                // One of another supervisor is answered by a message, so that never two schedulers' locks are held.
                let others = dependencies.filter { $0.record.scheduler !== self }
                foreign += others.map { (record, $0) }
                let ours = dependencies.filter { $0.record.scheduler === self }
                let outstanding = ours.filter { shared.scheduler.contains($0.record.id) }
                // One of ours that is gone from the scheduler has ended: what remains of it is how.
                let error = ours.filter { !shared.scheduler.contains($0.record.id) }
                    .compactMap(\.errorForDependents).first
                if let error { unlucky.append((record, error)) }
                let isReady = shared.scheduler.add(
                    record.id,
                    priority: record.options.priority,
                    mayContinueInBackground: record.options.mayContinueInBackground,
                    dependencies: outstanding.map { ($0.record.id, $0.policy) },
                    outstanding: others.count + (error == nil ? 0 : 1)
                )
                if isReady { becameReady.append(record) }
            }
            return becameReady
        }
        for record in becameReady { record.becomeReady() }
        Propagation.end(unlucky)
        for (record, dependency) in foreign {
            dependency.record.whenEnded { [self] _ in
                settle([(record.id, dependency.errorForDependents)])
            }
        }
        grantAll()
    }

    // MARK: Granting

    /// Gives away every free place, each to a worker of its own.
    private func grantAll() {
        let actions = shared.withLock { shared in
            var actions = Actions()
            while let grant = shared.scheduler.grant() { Self.prepare(grant, &shared, &actions) }
            return actions
        }
        perform(actions)
    }

    private static func prepare(_ grant: SchedulerState.Grant, _ shared: inout Shared, _ actions: inout Actions) {
        switch grant {
        case .fresh(let id):
            guard let record = shared.records[id] else {
                preconditionFailure("operation \(id) was granted, and is gone")
            }
            let worker = Worker()
            shared.workers[id] = worker
            actions.workers.append((worker, record))
        case .resumed(let id):
            guard let resumption = shared.resumptions.removeValue(forKey: id) else {
                preconditionFailure("operation \(id) was to resume, and isn't waiting")
            }
            actions.resumptions.append(resumption)
        }
    }

    private func start(_ worker: Worker, with record: OperationRecord) {
        worker.start(on: environment.executor) { [self] in
            var next: OperationRecord? = record
            while let current = next {
                next = nil
                await current.execute()
                next = nextRecord(for: worker, after: current.id)
            }
        }
    }

    /// The worker's next operation, if the place it had is free for one and nobody cancelled the worker.
    private func nextRecord(for worker: Worker, after id: OperationID) -> OperationRecord? {
        let (next, actions) = shared.withLock { shared -> (OperationRecord?, Actions) in
            var actions = Actions()
            var next: OperationRecord?
            shared.workers[id] = nil
            while let grant = shared.scheduler.grant() {
                if case .fresh(let id) = grant, next == nil, !worker.isPoisoned {
                    next = shared.records[id]
                    shared.workers[id] = worker
                } else {
                    Self.prepare(grant, &shared, &actions)
                }
            }
            return (next, actions)
        }
        perform(actions)
        return next
    }

    // MARK: Pausing

    /// The operation gives its place to others.
    func pause(_ record: OperationRecord) {
        shared.withLock { $0.scheduler.pause(record.id) }
        grantAll()
    }

    /// Returns when the operation, which paused, has a place again.
    ///
    /// A cancelled one waits too: places are counted.
    func awaitPlace(for record: OperationRecord) async {
        await withCheckedContinuation { continuation in
            let mustWait = shared.withLock { shared in
                guard shared.scheduler.resume(record.id) else { return false }
                shared.resumptions[record.id] = continuation
                return true
            }
            guard mustWait else { return continuation.resume() }
            grantAll()
        }
    }

    // MARK: Ending

    /// Ends an operation that was cancelled before it started.
    ///
    /// One that is being started notices by itself.
    func withdraw(_ record: OperationRecord, _ error: any Error = CancellationError()) {
        let isWithdrawn = shared.withLock { shared in
            guard shared.scheduler.withdraw(record.id) else { return false }
            return shared.records.removeValue(forKey: record.id) != nil
        }
        if isWithdrawn { record.endWithoutRunning(error) }
    }

    /// Cancels the task in which the operation runs, and with it the worker.
    func interrupt(_ record: OperationRecord) {
        let worker = shared.withLock { shared -> Worker? in
            guard let worker = shared.workers[record.id] else { return nil }
            worker.poison()
            return worker
        }
        worker?.cancel()
    }

    /// An operation ended: counts it out and lets those go that waited for it.
    func ended(_ record: OperationRecord, _ outcome: OperationLifecycle.Outcome) {
        let error = OperationDependency(record: record, policy: .mustSucceed).errorForDependents
        let (dependents, drained) = shared.withLock { shared in
            shared.records[record.id] = nil
            shared.completed += 1
            let dependents = shared.scheduler.end(record.id)
            var drained: [CheckedContinuation<Void, any Error>] = []
            if shared.scheduler.count == 0 {
                drained = Array(shared.drainWaiters.values)
                shared.drainWaiters = [:]
            }
            return (dependents, drained)
        }
        settle(dependents.map { ($0.id, $0.policy == .ending ? nil : error) })
        for waiter in drained { waiter.resume() }
    }

    /// Tells operations that one of their dependencies ended, and with which error if that is to be theirs.
    private func settle(_ endings: [(id: OperationID, error: (any Error)?)]) {
        guard !endings.isEmpty else { return }
        let (ready, unlucky) = shared.withLock { shared in
            var ready: [OperationRecord] = []
            var unlucky: [(OperationRecord, any Error)] = []
            for (id, error) in endings {
                guard let record = shared.records[id] else { continue }
                if let error {
                    unlucky.append((record, error))
                } else if shared.scheduler.dependencyEnded(of: id) {
                    ready.append(record)
                }
            }
            return (ready, unlucky)
        }
        for record in ready { record.becomeReady() }
        Propagation.end(unlucky)
        grantAll()
    }

    // MARK: Control

    /// Changes what the scheduler may do, and gives away the places that this frees.
    func configure(_ change: @Sendable (inout SchedulerState) -> Void) {
        shared.withLock { change(&$0.scheduler) }
        grantAll()
    }

    func read<Value: Sendable>(_ body: @Sendable (SchedulerState) -> Value) -> Value {
        shared.withLock { body($0.scheduler) }
    }

    /// The operations that haven't ended, the oldest first.
    var records: [OperationRecord] {
        shared.withLock { Array($0.records.values) }.sorted { $0.id < $1.id }
    }

    var progress: SupervisorProgress {
        let (records, total, completed, former) = shared.withLock { shared in
            (
                Array(shared.workers.keys.compactMap { shared.records[$0] }), shared.total, shared.completed,
                shared.fraction
            )
        }
        let partial = records.reduce(0) { $0 + $1.progress.fractionCompleted }
        let now = total == 0 ? 0 : min(1, (Double(completed) + partial) / Double(total))
        let fraction = max(former, now)
        shared.withLock { if $0.total >= total { $0.fraction = max($0.fraction, fraction) } }
        return SupervisorProgress(totalUnitCount: total, completedUnitCount: completed, fractionCompleted: fraction)
    }

    /// Returns when no operation is left.
    func drain() async throws {
        let ticket = shared.withLock { shared in
            shared.nextWaiter += 1
            return shared.nextWaiter
        }
        try await waitCancellably(for: "the end of every operation of a supervisor") { continuation in
            shared.withLock { shared in
                guard shared.scheduler.count > 0 else { return false }
                shared.drainWaiters[ticket] = continuation
                return true
            }
        } remove: { [self] in
            shared.withLock { $0.drainWaiters.removeValue(forKey: ticket) }
        }
    }
}

extension OperationDependency {
    /// The error that this dependency, having ended, means for its dependents.
    var errorForDependents: (any Error)? {
        guard policy == .mustSucceed else { return nil }
        return switch record.finalOutcome {
        case .finished, nil: nil
        case .failed, .cancelled: record.failure ?? CancellationError()
        }
    }
}
