// How operations end: cancelled, on their own, with another operation, or abandoned.

extension SchedulerBoard {
    mutating func cancel(_ record: OperationRecord, because cause: OperationError?) {
        if let target = record.extras?.target, record.lifecycle.isWaiting {
            return cancelJoined(record, target, because: cause)
        }
        switch record.updateLifecycle({ $0.cancel() }) {
        case .nothing: break
        case .withdraw: withdraw(record, cause ?? Self.cancellation)
        case .interrupt:
            if let cause { record.madeExtras.cancellationCause = cause }
            if let worker = worker(of: record) {
                worker.isCancelled = true
                if let task = worker.task { emit(.call { task.cancel() }) }
            }
            cancelChildren(of: record, because: cause)
        }
    }

    mutating func cancelChildren(of record: OperationRecord, because cause: OperationError? = nil) {
        for child in scheduler.children(of: record.position) {
            let child = self.record(at: child)
            // As separate decisions, so that a family of any depth needs no more stack than its root.
            emit(.decide(child.core) { $0.cancel(child, because: cause) })
        }
    }

    /// Cancels one of several handles of an operation; the last one cancels the operation.
    private mutating func cancelJoined(
        _ record: OperationRecord,
        _ target: OperationRecord,
        because cause: OperationError?
    ) {
        // The handle shows the outcome as soon as `main` of the operation is over.
        guard target.lifecycle.isWaiting || target.lifecycle.mayRunMain,
            record.updateLifecycle({ $0.cancel() }) != .nothing, let extras = target.extras
        else { return }
        extras.joinedCount -= 1
        if extras.joinedCount == 0 {
            // Not as a later effect, because until then another handle could join the operation.
            cancel(target, because: cause)
        } else {
            withdraw(record, cause ?? Self.cancellation)
        }
    }

    // MARK: Ending

    /// Ends an operation that hasn't started; a running operation ends on its own.
    mutating func withdraw(_ record: OperationRecord, _ error: any Error) {
        guard record.lifecycle.isWaiting, contains(record) else { return }
        record.failure = error
        finish(record)
    }

    /// Ends a joined operation as the operation did that it joined.
    mutating func mirror(_ record: OperationRecord) {
        guard record.lifecycle.isWaiting else { return }
        record.settleAsTarget()
        finish(record)
    }

    /// Ends an operation of which nothing runs: removes it, tells its observers, and settles its dependents.
    mutating func finish(_ record: OperationRecord) {
        let outcome = record.end()
        let worker = worker(of: record)
        noteEnd(of: record, outcome)
        tellState(of: record)
        tally.completed += record.progressUnitCount
        let doomed = scheduler.end(record.position, succeeded: outcome == .finished)
        records[Int(record.position)] = nil
        // Before the observers are told of the end, since an end handler may add the operation again.
        let former = takeOperation(of: record)
        depart(record, doomed)
        if let former { emit(.release(former)) }
        grantAll(to: worker)
        if let worker, worker.next == nil { workers.remove(worker) }
    }

    /// Takes the operation of a record that has ended without a run, so that it may be added again.
    ///
    /// The caller releases it outside the lock.
    func takeOperation(of record: OperationRecord) -> AnyObject? {
        guard let operation = record.operation.take() else { return nil }
        LiveOperations.remove(operation)
        return operation
    }

    /// Abandons an operation that doesn't end: its handle ends, and its keys stay held until it really ends.
    ///
    /// Returns `false` if nothing of it runs: it has just ended, or never started.
    mutating func abandon(_ record: OperationRecord) -> Bool {
        guard contains(record), !record.hasEnded else { return false }
        // It's about to end with the operation that it joined, or an operation that ignored the shutdown has added it.
        guard !record.lifecycle.isWaiting else {
            withdraw(record, Self.cancellation)
            return false
        }
        let outcome = record.updateLifecycle { $0.abandon() }
        if outcome == .failed, record.failure == nil {
            record.failure = OperationError(
                .abandoned,
                "\(record.name) didn't end when its supervisor was shut down. It may still run. Make its main respond to cancellation."
            )
        }
        noteEnd(of: record, outcome, isAbandoned: true)
        tellState(of: record)
        tally.completed += record.progressUnitCount
        let doomed = scheduler.abandon(record.position)
        depart(record, doomed)
        grantAll()
        return true
    }

    /// Releases what an abandoned operation still holds, once it has really ended.
    mutating func release(_ record: OperationRecord) {
        if let worker = worker(of: record) { workers.remove(worker) }
        scheduler.release(record.position)
        records[Int(record.position)] = nil
        grantAll()
    }

    private mutating func depart(_ record: OperationRecord, _ doomed: [SchedulerState.Position]) {
        if record.extras?.target != nil { joinedCount -= 1 }
        if backgroundWork != nil { leaveBackgroundWork(record) }
        for position in doomed {
            let dependent = self.record(at: position)
            if dependent.extras?.target === record {
                emit(.decide(dependent.core) { $0.mirror(dependent) })
            } else {
                let error = record.failure ?? Self.cancellation
                emit(.decide(dependent.core) { $0.withdraw(dependent, error) })
            }
        }
        if let extras = record.takeExtras() {
            tellAll(extras, record)
            drop(extras)
        }
        if scheduler.count == 0 {
            hasDrained = true
            // Decided again after the end handlers, which may have added operations.
            if !drainWaiters.isEmpty { emit(.decide(record.core) { $0.resumeDrainWaiters() }) }
        }
        admitWaiters()
    }

    private mutating func resumeDrainWaiters() {
        guard scheduler.count == 0 else { return }
        for waiter in takeDrainWaiters() { emit(.call { waiter.resume() }) }
    }

    private mutating func tellAll(_ extras: OperationRecord.Extras, _ record: OperationRecord) {
        notifyOtherSupervisors(extras, record)
        // The handles of a coalesced operation tell the readers themselves, once they have ended, too.
        if extras.coalescingID == nil {
            tell(extras.listeners, .ended(record.lifecycle.publicState(isReady: false)))
            tell(extras.listeners, nil)
        }
        for (_, waiter) in extras.waiters.sorted(by: { $0.key < $1.key }) { emit(.call { waiter.resume() }) }
        for handler in extras.endHandlers { emit(.call(handler)) }
        for timer in extras.timers { emit(.call { timer.cancel() }) }
        // A task that outlived `main`, or a task of an abandoned operation, may still wait for a slot.
        if let resumption = extras.resumption.take() { emit(.call { resumption.resume() }) }
        forget(extras.coalescingID, of: record)
        if let parent = extras.parent, !scheduler.hasChildren(parent.position),
            let waiter = parent.extras?.childrenWaiter.take()
        {
            emit(.call { waiter.resume() })
        }
    }

    /// Releases the extras outside the lock, because the last reference may run a `deinit` of the app.
    mutating func drop(_ extras: OperationRecord.Extras) {
        emit(
            .call {
                extras.ownTask?.drop()
                extendLifetime(extras)
            }
        )
    }

    /// Settles the dependents in other supervisors, and unregisters from unfinished dependencies there.
    private mutating func notifyOtherSupervisors(_ extras: OperationRecord.Extras, _ record: OperationRecord) {
        for dependency in extras.foreignDependencies {
            emit(.decide(dependency.record.core) { $0.forgetForeign(record, dependency) })
        }
        guard !extras.foreignDependents.isEmpty else { return }
        // In the order in which they were added.
        for dependent in extras.foreignDependents.values.sorted(by: { $0.record.id < $1.record.id }) {
            for policy in dependent.policies {
                let error = policy == .mustSucceed ? record.failure : nil
                let dependency = OperationDependency(record: record, policy: policy)
                emit(.decide(dependent.record.core) { $0.settleForeign(dependent.record, dependency, error) })
            }
        }
    }

    /// Settles a dependency in another supervisor, which has ended, unless the dependency was removed.
    mutating func settleForeign(
        _ record: OperationRecord,
        _ dependency: OperationDependency,
        _ error: (any Error)?
    ) {
        guard record.lifecycle.isWaiting, contains(record),
            let extras = record.extras, let index = extras.foreignDependencies.firstIndex(where: dependency.isSame)
        else { return }
        extras.foreignDependencies.remove(at: index)
        if let error { return withdraw(record, error) }
        scheduler.openGate(of: record.position)
        grantAll()
    }

    /// Forgets a dependent in another supervisor, which has ended before this operation or doesn't depend on it any more.
    func forgetForeign(_ dependent: OperationRecord, _ dependency: OperationDependency) {
        guard let extras = dependency.record.extras, var former = extras.foreignDependents[dependent.id],
            let index = former.policies.firstIndex(of: dependency.policy)
        else { return }
        former.policies.remove(at: index)
        extras.foreignDependents[dependent.id] = former.policies.isEmpty ? nil : former
    }

    /// Raises an operation to the priority of an operation of another supervisor that waits for it.
    mutating func raiseFromElsewhere(_ record: OperationRecord, to priority: OperationPriority) {
        // Only the other supervisor knows how long that operation waits, so the inherited priority stays.
        if priority > record.priority, !record.hasEnded {
            record.madeExtras.inheritedPriority = max(record.extras?.inheritedPriority ?? .veryLow, priority)
        }
        raise(record, to: priority)
    }

    /// Sets an operation's declared priority.
    mutating func setPriority(_ record: OperationRecord, to priority: OperationPriority) {
        record.priority = priority
        guard contains(record) else { return }
        scheduler.setPriority(record.position, to: max(priority, record.extras?.inheritedPriority ?? .veryLow))
        passRaisesOn()
    }

    mutating func raise(_ record: OperationRecord, to priority: OperationPriority) {
        guard contains(record) else { return }
        scheduler.raise(record.position, to: priority)
        passRaisesOn()
    }

    /// Passes raised priorities on to operations of other supervisors for which operations here wait.
    mutating func passRaisesOn() {
        guard !scheduler.raised.isEmpty else { return }
        for position in scheduler.raised {
            guard let extras = records[Int(position)]?.extras else { continue }
            let priority = scheduler.entries[Int(position)].priority
            for other in extras.foreignDependencies.map(\.record) + extras.awaitedElsewhere {
                emit(.decide(other.core) { $0.raiseFromElsewhere(other, to: priority) })
            }
        }
        scheduler.raised = []
    }
}
