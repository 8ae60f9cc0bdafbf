import DequeModule
import Logging

/// What stands under a supervisor's lock: the rules' state, the records, and who waits for what.
///
/// Its methods decide; what is to be done outside the lock they append to a list of actions.
struct SchedulerBoard {
    let environment: OperationEnvironment
    let capacity: Int?
    let restartIntensity: RestartIntensity?
    let inbox: Inbox
    private var inboxAdmission = Inbox.Admission.none
    /// Whether workers run newcomers straight from the inbox, each at a place that is counted.
    private var hasTakers = false
    var scheduler: SchedulerState
    /// By slot.
    var records: ContiguousArray<OperationRecord?> = []
    var workers = Workers()
    var tally = ProgressTally()
    /// Whether everything that the tally counts has ended, and nothing came since.
    var hasDrained = false
    var drainWaiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
    var roomWaiters: Deque<RoomWaiter> = []
    /// Places that were promised to those who waited for room.
    var reservedRoom = 0
    /// The operations among them.
    var promisedRoom: [OperationRecord] = []
    var nextTicket: UInt64 = 0
    var isShutDown = false
    /// Whether the supervisor suspended itself.
    var isSuspendedByFailures = false
    private var failures: Deque<Duration> = []
    /// Empty; kept for its memory.
    var spareDependencies: [SchedulerState.Addition.Dependency] = []
    var coalescing: [SchedulerCore.CoalescingID: OperationRecord] = [:]
    /// Records that joined another one: they are in the scheduler, and no work of their own.
    var joinedCount = 0
    /// What goes on while the app is in the background, until the last of it has ended.
    var backgroundWork: BackgroundWork?

    init(_ configuration: OperationSupervisor.Configuration, _ environment: OperationEnvironment, _ inbox: Inbox) {
        self.environment = environment
        self.inbox = inbox
        capacity = configuration.capacity
        restartIntensity = configuration.restartIntensity
        scheduler = SchedulerState(width: configuration.width, isSuspended: configuration.isSuspended)
    }

    /// One for all, since an error costs memory.
    static let cancellation: any Error = CancellationError()

    func record(at slot: SchedulerState.Slot) -> OperationRecord {
        guard let record = records[Int(slot)] else { preconditionFailure("slot \(slot) has no operation") }
        return record
    }

    /// Who runs the operation, or ran it last.
    func worker(of record: OperationRecord) -> Worker? { workers[scheduler.entries[Int(record.slot)].worker] }

    // MARK: Looking

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

    /// Puts an operation where it stays until it ends.
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

    /// Takes in what was left in the inbox, and what was taken from there and runs.
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

    /// Opens the inbox if operations that are added now couldn't start, else closes it.
    ///
    /// Returns whether there was anything in it.
    private mutating func attendInbox() -> Bool {
        let isClosed = scheduler.startsNewcomers || capacity != nil || isShutDown || environment.metrics != nil
        let admission: Inbox.Admission = isClosed ? .none : scheduler.holdsNewcomers ? .few : .any
        guard admission != inboxAdmission else { return false }
        inboxAdmission = admission
        let newcomers = inbox.setAdmission(admission)
        takeIn(newcomers)
        return !newcomers.records.isEmpty
    }

    /// From now on nothing is taken any more.
    mutating func shutDown() {
        isShutDown = true
        _ = attendInbox()
    }

    // MARK: Granting

    /// Gives away every free place: one of them to the worker that has just ended an operation, the others to new ones.
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
        // What waits here now comes before what is added later.
        if hasTakers, !scheduler.holdsNobodyBack { takeInNewcomers() }
        reportCounts()
    }

    /// Makes a worker that has just ended an operation a taker of newcomers, where none but those wait for a place.
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
                // It's for this operation alone.
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

    /// Nobody can join the operation any more; a later one that couldn't join it may stand in its place.
    mutating func forget(_ id: SchedulerCore.CoalescingID?, of record: OperationRecord) {
        guard let id, coalescing[id] === record else { return }
        coalescing[id] = nil
    }

    private mutating func resume(_ record: OperationRecord, _ actions: inout [SchedulerAction]) {
        guard let extras = record.extras, let resumption = extras.resumption.take() else {
            preconditionFailure("operation \(record.id) was to go on, and isn't waiting for that")
        }
        actions.append(.resume(resumption))
        // Another of its tasks may have begun to wait meanwhile.
        guard extras.pauseCount == 0 else { return scheduler.pause(record.slot) }
        guard record.change({ $0.resume() }) else { return }
        extras.pauseReason = nil
        if !extras.listeners.isEmpty { actions.append(.tell(extras.listeners, .resumed)) }
    }

    // MARK: Pausing

    /// One of the operation's tasks begins to wait; the first one gives the operation's place to others.
    ///
    /// In its ending phase an operation shows how it ended, and gives up its place all the same.
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

    /// One of the operation's tasks has waited enough; the last one waits for a place.
    ///
    /// Returns whether the continuation is kept.
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

    /// An attempt failed: suspends the supervisor if too many have.
    mutating func countFailure(_ actions: inout [SchedulerAction]) {
        // A shutdown waits like a drain, and isn't to be cut short.
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

/// How far a supervisor has come since it was last empty.
struct ProgressTally {
    var total: Int64 = 0
    var completed: Int64 = 0
    /// The largest fraction that was ever told.
    var fraction = 0.0
}

extension OperationError {
    static let suspendedByFailures = OperationError(
        .suspended,
        """
        Too much failed in too short a time, so the supervisor suspended itself. See to the cause, then set isSuspended to \
        false to go on, or cancel what is left.
        """
    )
}
