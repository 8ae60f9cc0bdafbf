import DequeModule

/// The state that a supervisor's lock guards: the state of the rules, the records, and the waiting continuations.
///
/// Its methods decide. What must be done outside the lock they append to ``effects``, which the lock's holder takes and
/// performs.
struct SchedulerBoard {
    let environment: OperationEnvironment
    var scheduler: SchedulerState
    /// The records, at the indices that the scheduler gives them.
    var records: ContiguousArray<OperationRecord?> = []
    var workers = Workers()
    var tally = ProgressTally()
    /// Whether everything that the tally counts has ended, and no operation was added since.
    var hasDrained = false
    var drainWaiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
    var roomWaiters: Deque<RoomWaiter> = []
    /// The number of operations for which room is reserved, because their callers waited for it.
    var reservedRoom = 0
    /// The operations among these callers.
    var operationsWithReservedRoom: [OperationRecord] = []
    private var lastTicket: UInt64 = 0
    /// Whether all operations are refused from now on.
    var isShutDown = false
    /// Whether the supervisor suspended itself.
    var isSuspendedByFailures = false
    private var failures: Deque<Duration> = []
    /// An empty array, kept to reuse its memory.
    var spareDependencies: [SchedulerState.Addition.Dependency] = []
    var coalescing: [SchedulerCore.CoalescingID: OperationRecord] = [:]
    /// The number of records that joined another one: they are in the scheduler, but aren't work of their own.
    var joinedCount = 0
    /// The operations that continue while the app is in the background, until the last of them has ended.
    var backgroundWork: BackgroundWork?
    let listeners = SupervisorListeners()
    /// What follows from the decisions since the lock was taken, in order.
    private(set) var effects: [SchedulerEffect] = []

    init(_ environment: OperationEnvironment) {
        self.environment = environment
        let configuration = environment.configuration
        scheduler = SchedulerState(width: configuration.width, isSuspended: configuration.isSuspended)
    }

    /// Adds an effect of a decision.
    mutating func emit(_ effect: SchedulerEffect) { effects.append(effect) }

    /// Tells readers of an event, or of the end of their sequences where this is `nil`, in the order of the decisions.
    mutating func tell<Event>(_ readers: [EventListener<Event>], _ event: Event?) {
        guard !readers.isEmpty, let core = listeners.core else { return }
        listeners.append { for reader in readers { reader.tell(event) } }
        emit(.call { core.deliverEvents() })
    }

    /// Takes the effects of the decisions, to perform them outside the lock.
    mutating func takeEffects() -> [SchedulerEffect] {
        guard !effects.isEmpty else { return [] }
        defer { effects = [] }
        return effects
    }

    /// Returns a number by which a waiting caller or a listener is found again; later ones are greater.
    mutating func makeTicket() -> UInt64 {
        lastTicket += 1
        return lastTicket
    }

    /// Shared, because each error allocates memory.
    static let cancellation: any Error = CancellationError()

    func record(at position: SchedulerState.Position) -> OperationRecord {
        guard let record = records[Int(position)] else { preconditionFailure("position \(position) has no operation") }
        return record
    }

    /// Whether the operation is in the scheduler: it was added, and something of it may still run.
    func contains(_ record: OperationRecord) -> Bool { scheduler.contains(record.id, at: record.position) }

    /// Returns the worker that runs the operation, or ran it last.
    func worker(of record: OperationRecord) -> Worker? { workers[scheduler.entries[Int(record.position)].worker] }

    // MARK: Inspecting

    func state(of record: OperationRecord) -> OperationState {
        if let target = record.extras?.target, record.lifecycle.isWaiting { return state(of: target) }
        let isReady =
            record.lifecycle.isWaiting && contains(record) && scheduler.phase(of: record.position) == .ready
        return record.lifecycle.publicState(isReady: isReady)
    }

    func progress(of record: OperationRecord) -> OperationProgress {
        if let target = record.extras?.target, record.lifecycle.isWaiting { return progress(of: target) }
        var progress = record.extras?.mailbox.current ?? .none
        if record.lifecycle.publicState(isReady: false) == .finished { progress.fractionCompleted = 1 }
        return progress
    }

    /// The number of operations that haven't ended; handles that joined an operation don't count.
    var operationCount: Int { scheduler.count - joinedCount }

    /// Whether operations can start only after the app resumes the supervisor.
    func holdsBack(mayContinueInBackground: Bool) -> Bool {
        scheduler.isSuspended || scheduler.width == 0 || scheduler.isInBackground && !mayContinueInBackground
    }

    /// Whether an operation would never start once the last reference to the supervisor is released.
    ///
    /// Children start also in a suspended supervisor and at width 0, since their parents wait for them.
    func holdsBack(_ record: OperationRecord) -> Bool {
        guard record.lifecycle.isWaiting, contains(record) else { return false }
        let traits = scheduler.entries[Int(record.position)].traits
        // The handles of a coalesced operation end with it, which may be running.
        return traits.isDisjoint(with: [.isJoined, .isChild])
            && holdsBack(mayContinueInBackground: traits.contains(.mayContinueInBackground))
    }

    /// Whether an operation that is about to be added would never start, because the supervisor was released.
    func wouldNeverStart(_ record: OperationRecord) -> Bool {
        listeners.isReleased && holdsBack(mayContinueInBackground: record.options.mayContinueInBackground)
    }

    // MARK: Adding

    /// Inserts an operation into the scheduler, where it stays until it ends.
    mutating func insert(_ record: OperationRecord, _ addition: SchedulerState.Addition) {
        if hasDrained { (tally, hasDrained) = (ProgressTally(), false) }
        tally.total += record.progressUnitCount
        if addition.traits.contains(.isJoined) { joinedCount += 1 }
        if addition.traits.contains(.mayContinueInBackground) { backgroundWork?.operations.insert(record.id) }
        let position = scheduler.add(addition)
        record.position = position
        if Int(position) == records.count { records.append(record) } else { records[Int(position)] = record }
        tellAddition(of: record)
    }

    // MARK: Granting

    /// Grants every free slot: one of them to the worker that has just ended an operation, the others to new workers.
    mutating func grantAll(to worker: Worker? = nil) {
        tellChanges()
        while let grant = scheduler.grant() {
            let record = record(at: grant.position)
            if grant.isResumption {
                resume(record)
            } else {
                begin(record, worker)
            }
        }
        reportCounts()
    }

    private mutating func begin(_ record: OperationRecord, _ worker: Worker?) {
        record.updateLifecycle { $0.begin() }
        noteStart(of: record)
        tellState(of: record)
        // First, so that no other event of the run precedes the start.
        if let extras = record.extras {
            forget(extras.coalescingID, of: record)
            tell(extras.listeners, .started)
        }
        let needsOwnWorker = record.extras?.needsOwnWorker == true
        if let worker, !worker.isCancelled, !worker.isSolitary, worker.next == nil, !needsOwnWorker {
            worker.next = record
            scheduler.entries[Int(record.position)].worker = worker.index
        } else {
            let rawTaskPriority = record.extras?.options.rawTaskPriority ?? environment.rawTaskPriority
            let worker = Worker(rawTaskPriority: rawTaskPriority, isSolitary: needsOwnWorker)
            workers.insert(worker)
            scheduler.entries[Int(record.position)].worker = worker.index
            if let ownTask = record.extras?.ownTask {
                worker.task = ownTask.task
                emit(.call { ownTask.run() })
            } else {
                emit(.start(worker, record))
            }
        }
    }

    /// Lets no further operation join this one.
    ///
    /// A later operation that couldn't join it may have replaced it already, and stays.
    mutating func forget(_ id: SchedulerCore.CoalescingID?, of record: OperationRecord) {
        guard let id, coalescing[id] === record else { return }
        coalescing[id] = nil
    }

    private mutating func resume(_ record: OperationRecord) {
        guard let extras = record.extras, let resumption = extras.resumption.take() else {
            preconditionFailure("operation \(record.id) was granted a slot to resume, but doesn't wait for one")
        }
        // Last, so that listeners are usually told before the operation does anything further.
        defer { emit(.call { resumption.resume() }) }
        // Another of the operation's tasks may have started to wait meanwhile.
        guard extras.pauseCount == 0 else { return scheduler.pause(record.position) }
        guard record.updateLifecycle({ $0.resume() }) else { return }
        extras.pauseReason = nil
        tell(extras.listeners, .resumed)
        tellState(of: record)
    }

    // MARK: Pausing

    /// Counts a task of the operation that starts to wait; the first one releases the operation's slot.
    ///
    /// In its ending phase, an operation releases its slot too, but still shows its outcome instead of the pause.
    mutating func pause(_ record: OperationRecord, _ reason: String) {
        let extras = record.madeExtras
        extras.pauseCount += 1
        guard extras.pauseCount == 1, !record.lifecycle.isWaiting, !record.hasEnded else { return }
        scheduler.pause(record.position)
        if record.updateLifecycle({ $0.pause() }) {
            extras.pauseReason = reason
            tell(extras.listeners, .paused(reason))
            tellState(of: record)
        }
        grantAll()
    }

    /// Counts a task of the operation that has stopped waiting; the last one waits for a slot.
    ///
    /// Returns whether the continuation is kept, to be resumed with the slot.
    mutating func endPause(
        _ record: OperationRecord,
        _ continuation: CheckedContinuation<Void, Never>
    ) -> Bool {
        guard let extras = record.extras else { return false }
        extras.pauseCount -= 1
        guard extras.pauseCount == 0, !record.lifecycle.isWaiting, !record.hasEnded,
            scheduler.resume(record.position)
        else { return false }
        extras.resumption = continuation
        grantAll()
        return true
    }

    // MARK: Failures

    /// Counts a failed attempt, and suspends the supervisor if there were too many.
    mutating func countFailure() {
        // A shutdown waits like a drain, and a suspension must not end that wait early.
        // A suspended supervisor that was released would never be resumed.
        guard let limit = environment.configuration.restartIntensity, !isShutDown, !listeners.isReleased else { return }
        let now = environment.now()
        failures.append(now)
        while let first = failures.first, now - first > limit.period { failures.removeFirst() }
        guard failures.count > limit.maximumFailures, !scheduler.isSuspended else { return }
        failures = []
        scheduler.isSuspended = true
        isSuspendedByFailures = true
        for waiter in takeDrainWaiters() {
            emit(.call { waiter.resume(throwing: OperationError.suspendedByFailures) })
        }
        noteSuspension(limit)
        tellChanges()
    }

    /// Removes the callers that wait for the end of all operations, in the order in which they began to wait.
    mutating func takeDrainWaiters() -> [CheckedContinuation<Void, any Error>] {
        defer { drainWaiters = [:] }
        return drainWaiters.sorted { $0.key < $1.key }.map(\.value)
    }

    mutating func setSuspended(_ isSuspended: Bool) {
        scheduler.isSuspended = isSuspended
        isSuspendedByFailures = false
    }
}

/// The progress of a supervisor since it was last empty.
struct ProgressTally {
    var total: Int64 = 0
    var completed: Int64 = 0
    /// The largest fraction that was ever reported.
    var fraction = 0.0
}

extension OperationError {
    static let suspendedByFailures = OperationError(
        .suspended,
        """
        Too many attempts failed in too short a time, so the supervisor suspended itself. Fix the cause, then set \
        isSuspended to false to resume it, or cancel the remaining operations.
        """
    )
}
