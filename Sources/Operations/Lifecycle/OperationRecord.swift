import ServiceContextModule
import Synchronization
import ThreadSupport

/// The record of one operation, independent of its output type.
///
/// There may be a million records, so data that most operations never have is in ``extras``, created on demand.
class OperationRecord: @unchecked Sendable {
    // Sendable: every `var`, here and in the subclasses, is accessed only under the scheduler's lock. As long as the operation
    // is only in the inbox, the inbox's locks take its role: only the adding task and the running worker access the record.
    // The task that runs the operation reads without locks what doesn't change after the operation was added.
    final let core: SchedulerCore
    /// Set when the operation is added, and constant from then on.
    final var id = OperationID.none
    final var extras: Extras?
    /// The error that the operation ended with, if any.
    final var failure: (any Error)?
    // The small properties are adjacent and fill eight bytes: padding between them would cost memory in every record.
    final var slot = SchedulerState.Slot.max
    private final var standing = OperationLifecycle()
    private final let exit = Atomic(Exit.open)
    private final var flags: Flags

    init(options: OperationOptions?, core: SchedulerCore) {
        self.core = core
        flags = Flags(options?.priority ?? .normal)
        let serviceContext = ServiceContext.current
        let isUsual = options?.saysNothingButPriority ?? true
        guard !isUsual || serviceContext != nil else { return }
        extras = Extras(options ?? Self.usualOptions(priority), serviceContext)
    }

    /// Creates a record of an operation without options.
    init(core: SchedulerCore) {
        self.core = core
        flags = Flags(.normal)
        guard let serviceContext = ServiceContext.current else { return }
        extras = Extras(Self.usualOptions(.normal), serviceContext)
    }

    /// Flags and the priority in one byte, because each would take a byte of its own.
    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let isPlain = Flags(rawValue: 1 << 3)
        static let isTaken = Flags(rawValue: 1 << 4)

        init(rawValue: UInt8) { self.rawValue = rawValue }
        init(_ priority: OperationPriority) { rawValue = priority.rawValue }

        var priority: OperationPriority { OperationPriority(rawValue: rawValue & 7) ?? .normal }
    }

    /// The priority that the operation was added with; its priority in the scheduler may be higher.
    final var priority: OperationPriority { flags.priority }

    /// Whether the operation was added without special options, so that its run can take the fast path.
    final var isPlain: Bool { flags.contains(.isPlain) }
    final func notePlainness() { if extras == nil, core.environment.isPlain { flags.insert(.isPlain) } }

    /// Whether a worker took the operation straight from the inbox.
    ///
    /// Only the task that runs the operation reads this, so it needs no lock.
    final var isTaken: Bool { flags.contains(.isTaken) }
    final func noteTaker() { flags.insert(.isTaken) }

    private static let usualOptions = OperationPriority.allCases.map { OperationOptions(priority: $0) }

    private static func usualOptions(_ priority: OperationPriority) -> OperationOptions {
        usualOptions[Int(priority.rawValue)]
    }

    // Under the scheduler's lock:

    /// The operation's lifecycle, including an exit from `main` that was taken without the lock.
    final var lifecycle: OperationLifecycle {
        var lifecycle = standing
        if lifecycle.isUnderway, exit.load(ordering: .acquiring) == .taken { lifecycle.beginEnding(.finished) }
        return lifecycle
    }

    /// Applies an event to the operation's lifecycle; from then on, leaving `main` needs the lock.
    final func change<Answer>(_ event: (inout OperationLifecycle) -> Answer) -> Answer {
        closeExit()
        return event(&standing)
    }

    /// Starts the operation on a worker.
    final func begin() { standing.begin() }

    private final func closeExit() {
        let exit = exit.compareExchange(expected: .open, desired: .closed, ordering: .acquiringAndReleasing).original
        if exit == .taken, standing.isUnderway { standing.beginEnding(.finished) }
    }

    final var options: OperationOptions { extras?.options ?? Self.usualOptions(priority) }
    /// The name to show: the name in the options, or the operation's type.
    final var name: String { extras?.options.name ?? typeName }
    final var progressUnitCount: Int64 { extras?.options.progressUnitCount ?? 1 }

    // Only the subclasses, which know the types of the operation and its output, implement these.

    var typeName: String { preconditionFailure("\(#function) is the subclass's") }
    /// Runs the operation, phases and all, in the current task.
    func execute() async { preconditionFailure("\(#function) is the subclass's") }
    /// Calls the progress phase until no progress is left.
    func pumpProgress() async { preconditionFailure("\(#function) is the subclass's") }

    // Under the scheduler's lock:

    /// Copies the failure or the output of the operation that this one joined.
    func settleAsTarget() -> OperationLifecycle.Outcome { preconditionFailure("\(#function) is the subclass's") }
    /// Returns the operation and drops the reference to it, so that the caller can release it outside the lock.
    func clear() -> AnyObject? { preconditionFailure("\(#function) is the subclass's") }

    /// Leaves `main` without the lock after it returned, if nothing happened to the operation since it was added.
    ///
    /// This is the common case. If it returns `false`, the scheduler decides under its lock.
    final func takeExit() -> Bool {
        exit.compareExchange(expected: .open, desired: .taken, ordering: .acquiringAndReleasing).exchanged
    }

    /// The way out of `main` that needs no lock: open until it is closed under the lock.
    private enum Exit: UInt8, AtomicRepresentable { case open, taken, closed }

    /// The data that only few operations have.
    final class Extras {
        /// The options that the operation was added with; the service context is the caller's.
        let options: OperationOptions
        let serviceContext: ServiceContext?
        /// Creates the operation when its turn comes.
        var factory: AnyObject?

        init(_ options: OperationOptions, _ serviceContext: ServiceContext?) {
            self.options = options
            self.serviceContext = serviceContext
        }

        var mailbox = ProgressMailbox()
        var pump: Task<Void, Never>?
        /// The number of progress reports, which the watchdog checks.
        var reportCount = 0

        var waiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        var nextTicket: UInt64 = 0
        var endWaiters: [CheckedContinuation<Void, Never>] = []
        var listeners: [EventListener] = []

        /// Unfinished operations of other supervisors that depend on this one.
        var foreignDependents: [OperationID: ForeignDependent] = [:]
        /// Unfinished operations of other supervisors on which this one depends, each as often as it was named.
        var foreignDependencies: [OperationRecord] = []
        /// Operations of other supervisors that `main` awaits.
        var awaitedForeigners: [OperationRecord] = []

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

        /// The operation that this one joined.
        var target: OperationRecord?
        /// The number of handles that joined this operation and haven't cancelled.
        var joinedCount = 0
        var coalescingID: SchedulerCore.CoalescingID?
        /// The task that was created for this operation alone when it was added.
        var ownTask: OwnTask?
    }

    /// Removes and returns the extras of an operation that has ended, and keeps only what is still needed.
    final func takeExtras() -> Extras? {
        guard let former = extras else { return nil }
        let kept = Extras(former.options, former.serviceContext)
        // An abandoned operation may still run and has to clean up later.
        kept.temporaryDirectory = former.temporaryDirectory
        kept.childrenWaiter = former.childrenWaiter
        // The handle still shows the operation's progress.
        kept.mailbox = former.mailbox
        kept.mailbox.discard()
        extras = kept
        return former
    }

    /// The extras, created if there are none.
    final var madeExtras: Extras {
        if let extras { return extras }
        closeExit()
        let made = Extras(Self.usualOptions(priority), nil)
        extras = made
        return made
    }
}

// MARK: - State

extension OperationRecord {
    var state: OperationState { core.withBoard { $0.state(of: self) } }
    var progress: OperationProgress { core.withBoard { $0.progress(of: self) } }
    var isCancellationRequested: Bool { core.withBoard { _ in lifecycle.isCancellationRequested } }
    var hasEnded: Bool { core.withBoard { _ in lifecycle.finalOutcome != nil } }
    /// The error that the operation ended with, once nothing of it runs any more.
    var finalFailure: (any Error)? {
        core.withBoard { _ in lifecycle.finalOutcome == nil ? nil : failure }
    }

    /// Cancels the operation.
    ///
    /// This is safe at any time and any number of times.
    func cancel() { core.cancel(self) }
}

// MARK: - Waiting

extension OperationRecord {
    /// Returns once nothing of the operation runs any more.
    ///
    /// If the caller is an operation itself, it releases its slot meanwhile.
    ///
    /// - Throws: `CancellationError` if the waiting task is cancelled, which doesn't affect the operation; an
    ///   ``OperationError`` if the caller is an operation and the wait would never end.
    nonisolated(nonsending) func waitUntilEnded() async throws {
        guard !hasEnded else { return }
        guard let current = CurrentOperation.record else { return try await waitOutside() }
        try WaitGraph.addWait(of: current, for: self)
        defer { WaitGraph.removeWait(of: current, for: self) }
        try await current.core.pause(current, awaiting: "operation \(id)") { try await waitOutside() }
    }

    /// Returns once nothing of the operation runs any more, even if the waiting task is cancelled.
    nonisolated(nonsending) func waitForEnd() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let mustWait = core.withBoard { _ in
                guard lifecycle.finalOutcome == nil else { return false }
                madeExtras.endWaiters.append(continuation)
                return true
            }
            if !mustWait { continuation.resume() }
        }
    }

    nonisolated(nonsending) private func waitOutside() async throws {
        let ticket = core.withBoard { _ in
            let extras = madeExtras
            extras.nextTicket += 1
            return extras.nextTicket
        }
        try await waitCancellably(for: "the end of operation \(id) (\(core.withBoard { _ in name }))") { continuation in
            core.withBoard { _ in
                guard lifecycle.finalOutcome == nil else { return false }
                madeExtras.waiters[ticket] = continuation
                return true
            }
        } remove: { [self] in
            core.withBoard { _ in extras?.waiters.removeValue(forKey: ticket) }
        }
    }
}

/// The operation on whose behalf the current task works, so that a waiting operation can release its slot.
enum CurrentOperation {
    @TaskLocal static var record: OperationRecord?
}
