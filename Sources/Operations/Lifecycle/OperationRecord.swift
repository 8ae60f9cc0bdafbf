import ServiceContextModule
import ThreadSupport
import Tracing

/// The record of one operation, independent of its output type.
///
/// There may be a million records, so data that most operations never have is in ``extras``, created on demand.
class OperationRecord: @unchecked Sendable {
    // Sendable: once the operation is added, every `var`, here and in the subclasses, is accessed only under the scheduler's
    // lock. The task that runs the operation also reads without it what only that task changes. The lifecycle is atomic.
    final let core: SchedulerCore
    /// Set when the operation is added, and constant from then on.
    final var id = OperationID.none
    private(set) final var extras: Extras?
    /// The operation, until it has ended; its subclass knows the type.
    ///
    /// It isn't typed because the runtime looks up the layout of a generic optional at each use.
    final var operation: AnyObject?
    /// The error that the operation ended with, if any.
    final var failure: (any Error)?
    // The small properties are adjacent and fill eight bytes: padding between them would cost memory in every record.
    final var position = SchedulerState.Position.max
    private final let cell = LifecycleCell()
    /// The priority that the caller gave the operation; its priority in the scheduler may be higher.
    final var priority: OperationPriority
    /// Whether the operation was added with more options than a priority, or with a service context.
    private(set) final var hasOptions = false
    /// Whether a factory creates the operation.
    final var hasFactory = false

    init(options: OperationOptions?, core: SchedulerCore) {
        self.core = core
        priority = options?.priority ?? .normal
        let serviceContext = ServiceContext.current
        let isUsual = options?.saysNothingButPriority ?? true
        guard !isUsual || serviceContext != nil else { return }
        hasOptions = true
        extras = Extras(options ?? OperationOptions(onlyPriority: .normal), serviceContext)
        cell.update { $0.hasExtras = true }
    }

    final var lifecycle: OperationLifecycle { cell.value }

    /// Ends `main` without the lock, if only its outcome remains to be decided.
    final func finishIfUndisturbed() -> Bool { cell.finishIfUndisturbed() }

    // Under the scheduler's lock:

    final func updateLifecycle<Result>(_ change: (inout OperationLifecycle) -> Result) -> Result { cell.update(change) }

    /// Ends the lifecycle with the outcome that ``failure`` implies.
    @discardableResult
    final func end() -> OperationLifecycle.Outcome {
        let outcome = failure.map(OperationLifecycle.Outcome.init) ?? .finished
        cell.update { $0.end(outcome) }
        return outcome
    }

    final var options: OperationOptions { extras?.options ?? OperationOptions(onlyPriority: priority) }
    /// The name to show: the name in the options, or the operation's type.
    final var name: String { extras?.options.name ?? typeName }
    /// The operation's weight in the supervisor's progress, limited so that the sum of millions doesn't overflow.
    final var progressUnitCount: Int64 { min(max(0, extras?.options.progressUnitCount ?? 1), 1 << 40) }

    // Only the subclasses, which know the types of the operation and its output, implement these.

    var typeName: String { preconditionFailure("\(#function) is the subclass's") }
    /// Runs the operation, phases and all, in the current task.
    func execute() async { preconditionFailure("\(#function) is the subclass's") }
    /// Calls the progress phase until no progress is left.
    func pumpProgress() async { preconditionFailure("\(#function) is the subclass's") }

    // Under the scheduler's lock:

    /// Copies the failure or the output of the operation that this one joined, and whether its cancellation was requested.
    func settleAsTarget() { preconditionFailure("\(#function) is the subclass's") }

    /// The data that only few operations have.
    final class Extras: @unchecked Sendable {
        // Sendable: as in the record, accessed only under the scheduler's lock.
        /// The options that the operation was added with; the service context is the caller's.
        let options: OperationOptions
        let serviceContext: ServiceContext?
        /// Creates the operation when its turn comes.
        var factory: AnyObject?
        /// The operations whose outputs the factory needs, so these dependencies can't be removed.
        var inputs: [OperationID] = []

        init(_ options: OperationOptions, _ serviceContext: ServiceContext?) {
            self.options = options
            self.serviceContext = serviceContext
        }

        var mailbox = ProgressMailbox()
        var pump: Task<Void, Never>?
        /// The number of progress reports, which the watchdog checks.
        var reportCount = 0

        var waiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        /// What callers asked to be called at the end.
        var endHandlers: [@Sendable () -> Void] = []
        var listeners: [EventListener<OperationEvent>] = []

        /// Unfinished operations of other supervisors that depend on this one.
        var foreignDependents: [OperationID: ForeignDependent] = [:]
        /// Unfinished operations of other supervisors on which this one depends, each as often as it was named.
        var foreignDependencies: [OperationDependency] = []
        /// The highest priority of operations of other supervisors that waited for this one.
        var inheritedPriority = OperationPriority.veryLow
        /// Operations of other supervisors that `main` awaits.
        var awaitedElsewhere: [OperationRecord] = []
        /// Whether the `main` of another operation has begun to await this one.
        var isAwaited = false

        var temporaryDirectory: TemporaryDirectory?

        var pauseCount = 0
        var pauseReason: String?
        var resumption: CheckedContinuation<Void, Never>?

        var isBarrier = false
        var parent: OperationRecord?
        var takesNoMoreChildren = false
        var childrenWaiter: CheckedContinuation<Void, Never>?

        /// The reason for the cancellation, if it makes the operation fail.
        var cancellationCause: OperationError?
        var timers: [Task<Void, Never>] = []
        var startedAt: Duration?
        var span: (any Span)?

        /// The operation that this one joined.
        var target: OperationRecord?
        /// The number of handles that joined this operation and haven't cancelled.
        var joinedCount = 0
        var coalescingID: SchedulerCore.CoalescingID?
        /// The task that was created for this operation alone when it was added.
        var ownTask: OwnTask?

        /// Whether the operation can't run in the task of the previous one.
        var needsOwnWorker: Bool { ownTask != nil || options.rawTaskPriority != nil }
    }

    /// Removes and returns the extras of an operation that has ended, and keeps only what is still needed.
    final func takeExtras() -> Extras? {
        guard let former = extras else { return nil }
        let kept = Extras(former.options, former.serviceContext)
        // An abandoned operation may still run, and has to clean up later and to end its span.
        kept.temporaryDirectory = former.temporaryDirectory
        kept.span = former.span
        kept.childrenWaiter = former.childrenWaiter
        // The handle still shows the operation's progress and priority; a joined handle shows those of its target.
        kept.mailbox = former.target?.extras?.mailbox ?? former.mailbox
        kept.mailbox.discard()
        priority = former.target?.priority ?? priority
        extras = kept
        return former
    }

    /// The extras, created if there are none.
    final var madeExtras: Extras {
        if let extras { return extras }
        let made = Extras(OperationOptions(onlyPriority: priority), nil)
        extras = made
        cell.update { $0.hasExtras = true }
        return made
    }
}

// MARK: - State

extension OperationRecord {
    var state: OperationState { core.withBoard { $0.state(of: self) } }
    var progress: OperationProgress { core.withBoard { $0.progress(of: self) } }
    var isCancellationRequested: Bool { lifecycle.isCancellationRequested }
    var declaredPriority: OperationPriority {
        get { core.withBoard { _ in (extras?.target ?? self).priority } }
        set { core.withBoard { $0.setPriority(extras?.target ?? self, to: newValue) } }
    }
    /// Whether the operation has ended.
    var hasEnded: Bool { lifecycle.finalOutcome != nil }
    /// The error that the operation ended with.
    var finalFailure: (any Error)? { core.withBoard { _ in hasEnded ? failure : nil } }
}

// MARK: - Waiting

extension OperationRecord {
    /// Calls `wait`, which waits for the operation's end, unless the operation has ended.
    ///
    /// If the caller is an operation itself, it releases its slot meanwhile.
    ///
    /// - Throws: What `wait` throws; an ``OperationError`` if the caller is an operation and the wait would never end.
    nonisolated(nonsending) func releasingSlot(
        during wait: nonisolated(nonsending) () async throws -> Void
    ) async throws {
        guard !hasEnded else { return }
        guard let current = CurrentOperation.record else { return try await wait() }
        try WaitGraph.addWait(of: current, for: self)
        defer { WaitGraph.removeWait(of: current, for: self) }
        try await current.core.pause(current, awaiting: "operation \(id)", wait)
    }

    /// Returns once nothing of the operation runs any more.
    ///
    /// - Throws: `CancellationError` if the waiting task is cancelled, which doesn't affect the operation.
    nonisolated(nonsending) func waitUntilEndedOrCancelled() async throws {
        let ticket = core.makeTicket()
        try await waitCancellably(for: "the end of operation \(id) (\(core.withBoard { _ in name }))") { continuation in
            core.withBoard { _ in
                guard !hasEnded else { return false }
                madeExtras.waiters[ticket] = continuation
                return true
            }
        } remove: { [self] in
            core.withBoard { _ in extras?.waiters.removeValue(forKey: ticket) }
        }
    }

    /// Returns once nothing of the operation runs any more, even if the waiting task is cancelled.
    nonisolated(nonsending) func waitUntilEnded() async {
        await withCheckedContinuation { continuation in whenEnded { continuation.resume() } }
    }

    /// Calls `body` once nothing of the operation runs any more; at once, if that is so already.
    func whenEnded(_ body: @escaping @Sendable () -> Void) {
        let hadEnded = core.withBoard { _ in
            guard !hasEnded else { return true }
            madeExtras.endHandlers.append(body)
            return false
        }
        if hadEnded { body() }
    }
}

/// The operation on whose behalf the current task works, so that a waiting operation can release its slot.
enum CurrentOperation {
    @TaskLocal static var record: OperationRecord?
}
