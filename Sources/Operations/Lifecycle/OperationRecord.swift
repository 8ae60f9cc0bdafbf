import ServiceContextModule
import Synchronization
import ThreadSupport

/// What is known of one operation, whatever its output.
///
/// There may be a million of these, so what most operations never have is in ``extras``, made when it's needed.
class OperationRecord: @unchecked Sendable {
    // Sendable: every `var`, here and in the subclasses, is read and written under the scheduler's lock only; but as long as
    // the scheduler hasn't heard of the operation, under the locks of the inbox, by who adds it and by the taker that runs it.
    // What stands since it was added, whoever runs it reads without them.
    final let core: SchedulerCore
    /// Given when the operation is added, and the same from then on.
    final var id = OperationID.none
    final var extras: Extras?
    /// The error that it ended with, if it has.
    final var failure: (any Error)?
    // What is small stands together, in eight bytes: a gap would be one in every record.
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

    /// As one without options.
    init(core: SchedulerCore) {
        self.core = core
        flags = Flags(.normal)
        guard let serviceContext = ServiceContext.current else { return }
        extras = Extras(Self.usualOptions(.normal), serviceContext)
    }

    /// What would take a byte each.
    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let isPlain = Flags(rawValue: 1 << 3)
        static let isTaken = Flags(rawValue: 1 << 4)

        init(rawValue: UInt8) { self.rawValue = rawValue }
        init(_ priority: OperationPriority) { rawValue = priority.rawValue }

        var priority: OperationPriority { OperationPriority(rawValue: rawValue & 7) ?? .normal }
    }

    /// What it was added with; what it has in the scheduler may be greater.
    final var priority: OperationPriority { flags.priority }

    /// Whether it was added with nothing that is unusual, and so can be run the short way.
    final var isPlain: Bool { flags.contains(.isPlain) }
    final func notePlainness() { if extras == nil, core.environment.isPlain { flags.insert(.isPlain) } }

    /// Whether a taker runs it, or has begun to: only whoever runs it asks, and needs no lock for that.
    final var isTaken: Bool { flags.contains(.isTaken) }
    final func noteTaker() { flags.insert(.isTaken) }

    private static let usualOptions = OperationPriority.allCases.map { OperationOptions(priority: $0) }

    private static func usualOptions(_ priority: OperationPriority) -> OperationOptions {
        usualOptions[Int(priority.rawValue)]
    }

    // Under the scheduler's lock:

    /// Where the operation stands.
    final var lifecycle: OperationLifecycle {
        var lifecycle = standing
        if lifecycle.isUnderway, exit.load(ordering: .acquiring) == .taken { lifecycle.beginEnding(.finished) }
        return lifecycle
    }

    /// Something happens to the operation.
    final func change<Answer>(_ event: (inout OperationLifecycle) -> Answer) -> Answer {
        closeExit()
        return event(&standing)
    }

    /// A worker takes the operation up.
    final func begin() { standing.begin() }

    private final func closeExit() {
        let exit = exit.compareExchange(expected: .open, desired: .closed, ordering: .acquiringAndReleasing).original
        if exit == .taken, standing.isUnderway { standing.beginEnding(.finished) }
    }

    final var options: OperationOptions { extras?.options ?? Self.usualOptions(priority) }
    /// The name to show: the one that was given, else the operation's type.
    final var name: String { extras?.options.name ?? typeName }
    final var progressUnitCount: Int64 { extras?.options.progressUnitCount ?? 1 }

    // What only the subclasses, which know operation and output, can say and do.

    var typeName: String { preconditionFailure("\(#function) is the subclass's") }
    /// Runs the operation, phases and all, in the current task.
    func execute() async { preconditionFailure("\(#function) is the subclass's") }
    /// Hands progress to the operation until none is left.
    func pumpProgress() async { preconditionFailure("\(#function) is the subclass's") }

    // Under the scheduler's lock:

    /// Puts the failure or the output in place that the operation ended with which this one joined.
    func settleAsTarget() -> OperationLifecycle.Outcome { preconditionFailure("\(#function) is the subclass's") }
    /// Lets go of the operation, which is to be released outside the lock.
    func clear() -> AnyObject? { preconditionFailure("\(#function) is the subclass's") }

    /// Without the lock: leaves `main`, which returned, if nothing happened to the operation since it was added, as is
    /// the case with most.
    ///
    /// Returns whether that was so; else the scheduler has to be asked.
    final func takeExit() -> Bool {
        exit.compareExchange(expected: .open, desired: .taken, ordering: .acquiringAndReleasing).exchanged
    }

    /// The way out of `main` that needs no lock: open until somebody who holds the lock closes it.
    private enum Exit: UInt8, AtomicRepresentable { case open, taken, closed }

    /// What few operations have.
    final class Extras {
        /// What the operation was added with; the service context is that of whoever added it.
        let options: OperationOptions
        let serviceContext: ServiceContext?
        /// Makes the operation when its turn comes.
        var factory: AnyObject?

        init(_ options: OperationOptions, _ serviceContext: ServiceContext?) {
            self.options = options
            self.serviceContext = serviceContext
        }

        var mailbox = ProgressMailbox()
        var pump: Task<Void, Never>?
        /// Counts reports, so that a watchdog sees whether there were any.
        var reportCount = 0

        var waiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        var nextTicket: UInt64 = 0
        var endWaiters: [CheckedContinuation<Void, Never>] = []
        var listeners: [EventListener] = []

        /// Operations of other supervisors that depend on this one and haven't ended.
        var foreignDependents: [OperationID: ForeignDependent] = [:]
        /// Operations of other supervisors on which this one depends and that haven't ended, each as often as it was named.
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

        /// Why it's cancelled, if that makes the end a failure.
        var cancellationCause: OperationError?
        var timers: [Task<Void, Never>] = []
        var startedAt: Duration?

        /// The operation that this one joined.
        var target: OperationRecord?
        /// Those that joined this one and want it still.
        var joinedCount = 0
        var coalescingID: SchedulerCore.CoalescingID?
        /// The task that was made for this operation alone when it was added.
        var ownTask: OwnTask?
    }

    /// Takes the extras away from an operation that has ended, but for what it was added with.
    final func takeExtras() -> Extras? {
        guard let former = extras else { return nil }
        let kept = Extras(former.options, former.serviceContext)
        // What was written off while it runs has to clear up yet.
        kept.temporaryDirectory = former.temporaryDirectory
        kept.childrenWaiter = former.childrenWaiter
        // How far it came can still be seen.
        kept.mailbox = former.mailbox
        kept.mailbox.discard()
        extras = kept
        return former
    }

    /// The extras, made if there are none.
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
    /// The error that it ended with, once nothing of it runs any more.
    var finalFailure: (any Error)? {
        core.withBoard { _ in lifecycle.finalOutcome == nil ? nil : failure }
    }

    /// Asks for the end.
    ///
    /// Safe at any time, as often as one likes.
    func cancel() { core.cancel(self) }
}

// MARK: - Waiting

extension OperationRecord {
    /// Returns once nothing of the operation runs any more.
    ///
    /// An operation that waits so for another one gives its place to others meanwhile.
    ///
    /// - Throws: `CancellationError` if the waiting task is cancelled, which doesn't touch the operation; an
    ///   ``OperationError`` if it's an operation that waits and the wait would never end.
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

/// The operation on whose behalf the current task works, so that an operation that waits can give its place to others.
enum CurrentOperation {
    @TaskLocal static var record: OperationRecord?
}
