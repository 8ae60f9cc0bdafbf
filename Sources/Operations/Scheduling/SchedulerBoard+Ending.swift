// How operations end: cancelled, on their own, with another operation, or abandoned.

extension SchedulerBoard {
    mutating func cancel(
        _ record: OperationRecord,
        because cause: OperationError?,
        _ actions: inout [SchedulerAction]
    ) {
        if let target = record.extras?.target, record.lifecycle.isWaiting {
            return cancelJoined(record, target, because: cause, &actions)
        }
        switch record.change({ $0.cancel() }) {
        case .nothing: break
        case .withdraw: withdraw(record, cause ?? Self.cancellation, &actions)
        case .interrupt:
            if let cause { record.madeExtras.cancellationCause = cause }
            if let worker = worker(of: record) {
                worker.isPoisoned = true
                if let task = worker.task { actions.append(.cancelTask(task)) }
            }
            cancelChildren(of: record, because: cause, &actions)
        }
    }

    mutating func cancelChildren(
        of record: OperationRecord,
        because cause: OperationError? = nil,
        _ actions: inout [SchedulerAction]
    ) {
        for child in scheduler.relations[record.slot]?.children ?? [] {
            actions.append(.cancel(self.record(at: child), cause))
        }
    }

    /// Cancels one of several handles of an operation; the last one cancels the operation.
    private mutating func cancelJoined(
        _ record: OperationRecord,
        _ target: OperationRecord,
        because cause: OperationError?,
        _ actions: inout [SchedulerAction]
    ) {
        guard record.change({ $0.cancel() }) != .nothing, let extras = target.extras else { return }
        extras.joinedCount -= 1
        if extras.joinedCount == 0 {
            // Not as a later action, because until then another handle could join the operation.
            cancel(target, because: cause, &actions)
        } else {
            withdraw(record, cause ?? Self.cancellation, &actions)
        }
    }

    // MARK: Ending

    /// Ends an operation that hasn't started; a running operation ends on its own.
    mutating func withdraw(_ record: OperationRecord, _ error: any Error, _ actions: inout [SchedulerAction]) {
        guard record.lifecycle.isWaiting, scheduler.contains(record.id, at: record.slot) else { return }
        record.failure = error
        let outcome = OperationLifecycle.Outcome(error)
        record.change { $0.end(outcome) }
        finish(record, outcome, &actions)
    }

    /// Ends a joined operation as the operation did that it joined.
    mutating func mirror(_ record: OperationRecord, _ actions: inout [SchedulerAction]) {
        guard record.lifecycle.isWaiting else { return }
        let outcome = record.settleAsTarget()
        record.change { $0.end(outcome) }
        finish(record, outcome, &actions)
    }

    /// Removes an operation that has just ended, tells its observers, and settles its dependents.
    mutating func finish(
        _ record: OperationRecord,
        _ outcome: OperationLifecycle.Outcome,
        _ actions: inout [SchedulerAction]
    ) {
        let error = record.failure
        let worker = worker(of: record)
        noteEnd(of: record, outcome, error, &actions)
        tally.completed += record.progressUnitCount
        let unlucky = scheduler.end(record.slot, succeeded: outcome == .finished)
        records[Int(record.slot)] = nil
        depart(record, unlucky, error, &actions)
        if let former = record.clear() { actions.append(.release(former)) }
        grantAll(to: worker, &actions)
        if let worker, worker.next == nil { workers.remove(worker) }
    }

    /// Abandons an operation that doesn't end: its handle ends, and its keys stay held until it really ends.
    mutating func abandon(_ record: OperationRecord, _ actions: inout [SchedulerAction]) {
        guard scheduler.contains(record.id, at: record.slot), record.lifecycle.finalOutcome == nil else { return }
        // It's about to end with the operation that it joined, or an operation that ignored the shutdown has added it.
        guard !record.lifecycle.isWaiting else { return withdraw(record, Self.cancellation, &actions) }
        let outcome = record.change { $0.abandon() }
        if outcome == .failed, record.failure == nil {
            let error = OperationError(
                .abandoned,
                "\(record.name) didn't end when its supervisor was shut down. It may still run. Make its main respond to cancellation."
            )
            record.failure = error
        }
        noteEnd(of: record, outcome, record.failure, isAbandoned: true, &actions)
        tally.completed += record.progressUnitCount
        let unlucky = scheduler.abandon(record.slot)
        depart(record, unlucky, record.failure, &actions)
        grantAll(&actions)
    }

    /// Releases what an abandoned operation still holds, once it has really ended.
    mutating func release(_ record: OperationRecord, _ actions: inout [SchedulerAction]) {
        if let worker = worker(of: record) { workers.remove(worker) }
        scheduler.release(record.slot)
        records[Int(record.slot)] = nil
        grantAll(&actions)
    }

    private mutating func depart(
        _ record: OperationRecord,
        _ unlucky: [SchedulerState.Slot],
        _ error: (any Error)?,
        _ actions: inout [SchedulerAction]
    ) {
        if record.extras?.target != nil { joinedCount -= 1 }
        if backgroundWork != nil { leaveBackgroundWork(record, &actions) }
        for slot in unlucky {
            let dependent = self.record(at: slot)
            if dependent.extras?.target === record {
                actions.append(.mirror(dependent))
            } else {
                actions.append(.withdraw(dependent, error ?? Self.cancellation))
            }
        }
        if let extras = record.takeExtras() {
            tellAll(extras, record, error, &actions)
            actions.append(.drop(extras))
        }
        if scheduler.count == 0, inbox.isEmpty {
            hasDrained = true
            actions += drainWaiters.values.map { .wake($0) }
            drainWaiters = [:]
        }
        admitWaiters(&actions)
    }

    private mutating func tellAll(
        _ extras: OperationRecord.Extras,
        _ record: OperationRecord,
        _ error: (any Error)?,
        _ actions: inout [SchedulerAction]
    ) {
        tellForeigners(extras, record, error, &actions)
        if !extras.listeners.isEmpty {
            actions.append(.tell(extras.listeners, .ended(record.lifecycle.publicState(isReady: false))))
        }
        actions += extras.waiters.values.map { .wake($0) }
        actions += extras.endWaiters.map { .resume($0) }
        actions += extras.timers.map { .cancelTask($0) }
        // A task that outlived `main`, or a task of an abandoned operation, may still wait for a slot.
        if let resumption = extras.resumption.take() { actions.append(.resume(resumption)) }
        if let ownTask = extras.ownTask { actions.append(.dropOwnTask(ownTask)) }
        forget(extras.coalescingID, of: record)
        if let parent = extras.parent, scheduler.relations[parent.slot]?.children.isEmpty != false,
            let waiter = parent.extras?.childrenWaiter.take()
        {
            actions.append(.resume(waiter))
        }
    }

    /// Settles the dependents in other supervisors, and unregisters from unfinished dependencies there.
    private func tellForeigners(
        _ extras: OperationRecord.Extras,
        _ record: OperationRecord,
        _ error: (any Error)?,
        _ actions: inout [SchedulerAction]
    ) {
        for dependency in extras.foreignDependencies {
            actions.append(.forgetForeign(record, dependency: dependency))
        }
        guard !extras.foreignDependents.isEmpty else { return }
        // In the order in which they were added.
        for dependent in extras.foreignDependents.values.sorted(by: { $0.record.id < $1.record.id }) {
            for policy in dependent.policies {
                let error = policy == .mustSucceed ? error : nil
                actions.append(.settleForeign(dependent.record, dependency: record, error))
            }
        }
    }

    /// Settles a dependency in another supervisor, which has ended.
    mutating func settleForeign(
        _ record: OperationRecord,
        _ dependency: OperationRecord,
        _ error: (any Error)?,
        _ actions: inout [SchedulerAction]
    ) {
        guard record.lifecycle.isWaiting, scheduler.contains(record.id, at: record.slot) else { return }
        if let extras = record.extras, let index = extras.foreignDependencies.firstIndex(where: { $0 === dependency }) {
            extras.foreignDependencies.remove(at: index)
        }
        if let error { return withdraw(record, error, &actions) }
        scheduler.openGate(of: record.slot)
        grantAll(&actions)
    }

    /// Forgets a dependent in another supervisor, which has ended before this operation.
    func forgetForeign(_ dependent: OperationRecord, _ record: OperationRecord) {
        record.extras?.foreignDependents[dependent.id] = nil
    }

    mutating func raise(_ record: OperationRecord, to priority: OperationPriority, _ actions: inout [SchedulerAction]) {
        guard scheduler.contains(record.id, at: record.slot) else { return }
        scheduler.raise(record.slot, to: priority)
        passRaisesOn(&actions)
    }

    /// Passes raised priorities on to operations of other supervisors for which operations here wait.
    mutating func passRaisesOn(_ actions: inout [SchedulerAction]) {
        guard !scheduler.raised.isEmpty else { return }
        for slot in scheduler.raised {
            guard let extras = records[Int(slot)]?.extras else { continue }
            let priority = scheduler.entries[Int(slot)].priority
            actions += (extras.foreignDependencies + extras.awaitedForeigners).map { .raise($0, priority) }
        }
        scheduler.raised = []
    }
}
