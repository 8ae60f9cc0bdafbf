import ThreadSupport

// MARK: - Dependencies after adding

extension OperationRecord {
    /// Adds a dependency, or ends the operation if the dependency has ended so that the operation may not run.
    func addDependency(_ dependency: OperationDependency) throws {
        // A handle that joined an operation speaks for that operation.
        let record = core.withBoard { _ in extras?.target ?? self }
        while true {
            let isSettled = try core.withBoard { board in
                try board.checkUnstarted(self, record)
                return board.settleEnded(dependency, of: record)
            }
            if isSettled { return }
            // The dependent may be ended only after the search, because its end calls code from outside.
            let isAdded = try WaitGraph.addingEdges(from: record, to: [dependency.record]) {
                try core.withBoard { board in
                    try board.checkUnstarted(self, record)
                    return board.addDependency(dependency, of: record)
                }
            }
            guard isAdded else { continue }
            if dependency.record.core !== core { core.settle([(record, dependency)]) }
            return
        }
    }

    /// Removes the dependencies on another operation, with any policy.
    func removeDependencies(on other: OperationRecord) {
        let record = core.withBoard { _ in extras?.target ?? self }
        guard other.core !== core else {
            return core.withBoard { board in
                guard board.canRemoveDependencies(of: record, on: other),
                    board.scheduler.contains(other.id, at: other.position)
                else { return }
                board.scheduler.removeDependencies(of: record.position, on: other.position)
                board.grantAll()
            }
        }
        let removed = core.withBoard { $0.removeForeignDependencies(of: record, on: other) }
        for dependency in removed { other.core.withBoard { $0.forgetForeign(record, dependency) } }
    }

    /// The dependencies that haven't ended, the oldest first.
    var dependencies: [OperationDependency] {
        core.withBoard { board in
            let record = extras?.target ?? self
            guard record.lifecycle.isWaiting, board.scheduler.contains(record.id, at: record.position) else {
                return []
            }
            let here = board.scheduler.dependencies(of: record.position).map { position, policy in
                OperationDependency(
                    record: board.record(at: position),
                    policy: policy == .ending ? .ending : .mustSucceed
                )
            }
            return (here + (record.extras?.foreignDependencies ?? [])).sorted { $0.record.id < $1.record.id }
        }
    }
}

extension SchedulerBoard {
    /// Throws if an operation has started or ended; its dependencies don't matter any more.
    fileprivate func checkUnstarted(_ handle: OperationRecord, _ record: OperationRecord) throws {
        guard handle.lifecycle.isWaiting, record.lifecycle.isWaiting,
            scheduler.contains(record.id, at: record.position)
        else {
            throw OperationError(
                .alreadyStarted,
                "\(record.name) has started or ended, so it accepts no dependencies. Await the other operation in main."
            )
        }
    }

    /// Settles a dependency that has ended in this supervisor.
    ///
    /// - Returns: Whether it had ended, so that nothing remains to be done.
    fileprivate mutating func settleEnded(_ dependency: OperationDependency, of record: OperationRecord) -> Bool {
        let other = dependency.record
        guard other.core === record.core, other.lifecycle.finalOutcome != nil else { return false }
        if dependency.policy == .mustSucceed, let error = other.failure { withdraw(record, error) }
        return true
    }

    /// Adds a dependency that hasn't ended.
    ///
    /// - Returns: `false` if it has ended meanwhile. Only its own supervisor knows that.
    fileprivate mutating func addDependency(_ dependency: OperationDependency, of record: OperationRecord) -> Bool {
        let other = dependency.record
        guard other.core === record.core else {
            record.madeExtras.foreignDependencies.append(dependency)
            scheduler.addForeignDependency(of: record.position)
            WaitGraph.noteUnsettled(1)
            tellChanges()
            return true
        }
        guard other.lifecycle.finalOutcome == nil else { return false }
        scheduler.addDependency(of: record.position, on: other.position, dependency.edgePolicy)
        passRaisesOn()
        tellChanges()
        return true
    }

    fileprivate func canRemoveDependencies(of record: OperationRecord, on other: OperationRecord) -> Bool {
        record.lifecycle.isWaiting && scheduler.contains(record.id, at: record.position)
            && record.extras?.inputs.contains(other.id) != true
    }

    fileprivate mutating func removeForeignDependencies(
        of record: OperationRecord,
        on other: OperationRecord
    ) -> [OperationDependency] {
        guard canRemoveDependencies(of: record, on: other),
            let removed = record.extras?.foreignDependencies.filter({ $0.record === other }), !removed.isEmpty
        else { return [] }
        record.extras?.foreignDependencies.removeAll { $0.record === other }
        for _ in removed { scheduler.openGate(of: record.position) }
        grantAll()
        return removed
    }
}
