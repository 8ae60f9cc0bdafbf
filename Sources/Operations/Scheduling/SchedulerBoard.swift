import DequeModule
import Logging

/// The state that a supervisor's lock guards: the state of the rules, the records, and the waiting continuations.
///
/// Its methods decide. They append what must be done outside the lock to a list of actions.
struct SchedulerBoard {
    let environment: OperationEnvironment
    let capacity: Int?
    let restartIntensity: RestartIntensity?
    let inbox: Inbox
    private var inboxAdmission = Inbox.Admission.none
    /// Whether workers run operations straight from the inbox, each in a slot that is counted.
    private var hasTakers = false
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
    var promisedRoom: [OperationRecord] = []
    var nextTicket: UInt64 = 0
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

    init(_ configuration: OperationSupervisor.Configuration, _ environment: OperationEnvironment, _ inbox: Inbox) {
        self.environment = environment
        self.inbox = inbox
        capacity = configuration.capacity
        restartIntensity = configuration.restartIntensity
        scheduler = SchedulerState(width: configuration.width, isSuspended: configuration.isSuspended)
    }

    /// Shared, because each error allocates memory.
    static let cancellation: any Error = CancellationError()

    func record(at slot: SchedulerState.Slot) -> OperationRecord {
        guard let record = records[Int(slot)] else { preconditionFailure("slot \(slot) has no operation") }
        return record
    }

    /// Returns the worker that runs the operation, or ran it last.
    func worker(of record: OperationRecord) -> Worker? { workers[scheduler.entries[Int(record.slot)].worker] }

    // MARK: Inspecting

    func state(of record: OperationRecord) -> OperationState {
        if let target = record.extras?.target, record.lifecycle.isWaiting { return state(of: target) }
        let isReady =
            record.lifecycle.isWaiting && scheduler.contains(record.id, at: record.slot)
            && scheduler.phase(of: record.slot) == .ready
        return record.lifecycle.publicState(isReady: isReady)
    }

    func progress(of record: OperationRecord) -> OperationProgress {
        if let target = record.extras?.target, record.lifecycle.isWaiting { return progress(of: target) }
        var progress = record.extras?.mailbox.current ?? .none
        if record.lifecycle.publicState(isReady: false) == .finished { progress.fractionCompleted = 1 }
        return progress
    }

    // MARK: Adding

    /// Inserts an operation into the scheduler, where it stays until it ends.
    mutating func insert(_ record: OperationRecord, _ addition: SchedulerState.Addition) {
        countAnewIfDrained()
        tally.total += record.progressUnitCount
        if addition.traits.contains(.isJoined) { joinedCount += 1 }
        if addition.traits.contains(.mayContinueInBackground) { backgroundWork?.operations.insert(record.id) }
        let slot = scheduler.add(addition)
        record.slot = slot
        if Int(slot) == records.count { records.append(record) } else { records[Int(slot)] = record }
    }

    private mutating func countAnewIfDrained() {
        guard hasDrained else { return }
        tally = ProgressTally()
        hasDrained = false
    }

    /// Takes in the pending operations, and the operations that workers run straight from the inbox.
    mutating func takeInNewcomers() {
        if let contents = inbox.takeAll() { takeIn(contents) }
    }

    private mutating func takeIn(_ contents: Inbox.Contents) {
        hasTakers = false
        if !contents.takers.isEmpty { countAnewIfDrained() }
        tally.total += contents.endedCount
        tally.completed += contents.endedCount
        for taker in contents.takers {
            insert(newcomer: taker.record, isRunning: true)
            scheduler.entries[Int(taker.record.slot)].worker = taker.worker.place
        }
        for record in contents.records { insert(newcomer: record) }
    }

    private mutating func insert(newcomer record: OperationRecord, isRunning: Bool = false) {
        insert(record, SchedulerState.Addition(id: record.id, priority: record.priority, isRunning: isRunning))
    }

    /// Opens the inbox if operations that are added now couldn't start, or else closes it.
    ///
    /// Returns whether the change took in pending operations.
    private mutating func attendInbox() -> Bool {
        let isClosed = scheduler.startsNewcomers || capacity != nil || isShutDown || environment.metrics != nil
        let admission: Inbox.Admission = isClosed ? .none : scheduler.holdsNewcomers ? .few : .any
        guard admission != inboxAdmission else { return false }
        inboxAdmission = admission
        let newcomers = inbox.setAdmission(admission)
        takeIn(newcomers)
        return !newcomers.records.isEmpty
    }

    /// Refuses all operations from now on.
    mutating func shutDown() {
        isShutDown = true
        _ = attendInbox()
    }

    // MARK: Granting

    /// Grants every free slot: one of them to the worker that has just ended an operation, the others to new workers.
    mutating func grantAll(to worker: Worker? = nil, _ actions: inout [SchedulerAction]) {
        repeat {
            if let worker, makeTaker(of: worker) { continue }
            while let grant = nextGrant() {
                let record = record(at: grant.slot)
                if grant.isResumption {
                    resume(record, &actions)
                } else {
                    begin(record, worker, &actions)
                }
            }
        } while attendInbox()
        // The operations that wait here now come before operations that are added later.
        if hasTakers, !scheduler.holdsNobodyBack { takeInNewcomers() }
        reportCounts()
    }

    /// Lets a worker that has just ended an operation run pending operations straight from the inbox.
    ///
    /// Returns `false` if it can't, for example because another operation waits for a slot.
    private mutating func makeTaker(of worker: Worker) -> Bool {
        guard inboxAdmission == .any, environment.isPlain, !environment.logs(.debug) else { return false }
        guard scheduler.startsNewcomers, scheduler.holdsNobodyBack else { return false }
        guard !worker.isPoisoned, worker.next == nil, let record = inbox.makeTaker(of: worker) else { return false }
        worker.next = record
        scheduler.runningCount += 1
        hasTakers = true
        return true
    }

    private mutating func nextGrant() -> SchedulerState.Grant? {
        guard scheduler.hasPlace else { return nil }
        scheduler.dropStale()
        if !scheduler.outranksNewcomers { takeInNewcomers() }
        return scheduler.grantFirst()
    }

    private mutating func begin(_ record: OperationRecord, _ worker: Worker?, _ actions: inout [SchedulerAction]) {
        record.begin()
        noteStart(of: record, &actions)
        if let worker, !worker.isPoisoned, worker.next == nil, record.extras?.ownTask == nil {
            worker.next = record
            scheduler.entries[Int(record.slot)].worker = worker.place
        } else {
            let worker = Worker()
            workers.insert(worker)
            scheduler.entries[Int(record.slot)].worker = worker.place
            if let ownTask = record.extras?.ownTask {
                worker.task = ownTask.task
                // The task is for this operation alone.
                worker.isPoisoned = true
                actions.append(.startOwnTask(ownTask))
            } else {
                actions.append(.start(worker, record))
            }
        }
        guard let extras = record.extras else { return }
        forget(extras.coalescingID, of: record)
        if !extras.listeners.isEmpty { actions.append(.tell(extras.listeners, .started)) }
    }

    /// Lets no further operation join this one.
    ///
    /// A later operation that couldn't join it may have replaced it already, and stays.
    mutating func forget(_ id: SchedulerCore.CoalescingID?, of record: OperationRecord) {
        guard let id, coalescing[id] === record else { return }
        coalescing[id] = nil
    }

    private mutating func resume(_ record: OperationRecord, _ actions: inout [SchedulerAction]) {
        guard let extras = record.extras, let resumption = extras.resumption.take() else {
            preconditionFailure("operation \(record.id) was granted a slot to resume, but doesn't wait for one")
        }
        actions.append(.resume(resumption))
        // Another of the operation's tasks may have started to wait meanwhile.
        guard extras.pauseCount == 0 else { return scheduler.pause(record.slot) }
        guard record.change({ $0.resume() }) else { return }
        extras.pauseReason = nil
        if !extras.listeners.isEmpty { actions.append(.tell(extras.listeners, .resumed)) }
    }

    // MARK: Pausing

    /// Counts a task of the operation that starts to wait; the first one releases the operation's slot.
    ///
    /// In its ending phase, an operation releases its slot too, but still shows its outcome instead of the pause.
    mutating func pause(_ record: OperationRecord, _ reason: String, _ actions: inout [SchedulerAction]) {
        let extras = record.madeExtras
        extras.pauseCount += 1
        guard extras.pauseCount == 1, !record.lifecycle.isWaiting, record.lifecycle.finalOutcome == nil else { return }
        scheduler.pause(record.slot)
        if record.change({ $0.pause() }) {
            extras.pauseReason = reason
            if !extras.listeners.isEmpty { actions.append(.tell(extras.listeners, .paused(reason))) }
        }
        grantAll(&actions)
    }

    /// Counts a task of the operation that has stopped waiting; the last one waits for a slot.
    ///
    /// Returns whether the continuation is kept, to be resumed with the slot.
    mutating func endPause(
        _ record: OperationRecord,
        _ continuation: CheckedContinuation<Void, Never>,
        _ actions: inout [SchedulerAction]
    ) -> Bool {
        guard let extras = record.extras else { return false }
        extras.pauseCount -= 1
        guard extras.pauseCount == 0, record.lifecycle.finalOutcome == nil, scheduler.resume(record.slot) else {
            return false
        }
        extras.resumption = continuation
        grantAll(&actions)
        return true
    }

    // MARK: Failures

    /// Counts a failed attempt, and suspends the supervisor if there were too many.
    mutating func countFailure(_ actions: inout [SchedulerAction]) {
        // A shutdown waits like a drain, and a suspension must not end that wait early.
        guard let limit = restartIntensity, !isShutDown else { return }
        let now = environment.now()
        failures.append(now)
        while let first = failures.first, now - first > limit.period { failures.removeFirst() }
        guard failures.count > limit.maximumFailures, !scheduler.isSuspended else { return }
        failures = []
        scheduler.isSuspended = true
        isSuspendedByFailures = true
        actions += drainWaiters.values.map { .fail($0, OperationError.suspendedByFailures) }
        drainWaiters = [:]
        noteSuspension(limit, &actions)
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
