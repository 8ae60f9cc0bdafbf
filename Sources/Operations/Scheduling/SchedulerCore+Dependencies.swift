// MARK: - Dependencies after adding

extension OperationRecord {
    /// Adds a dependency, or ends the operation if the dependency has ended so that the operation may not run.
    func addDependency(_ dependency: OperationDependency) throws {
        // A handle that joined an operation speaks for that operation.
        let record = core.withBoard { _ in extras?.target ?? self }
        // Also before the search, which would find what a started operation waits for.
        try core.withBoard { try $0.checkUnstarted(self, record) }
        try WaitGraph.addingEdges(from: record, to: [dependency.record]) { board in
            try board.checkUnstarted(self, record)
            board.addDependency(dependency, of: record)
        }
        if dependency.record.core !== core { core.settle([(record, dependency)]) }
    }

    /// Removes the dependencies on another operation, with any policy.
    func removeDependencies(on other: OperationRecord) {
        let record = core.withBoard { _ in extras?.target ?? self }
        guard other.core !== core else {
            return core.withBoard { board in
                guard board.canRemoveDependencies(of: record, on: other), board.contains(other) else { return }
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
            guard record.lifecycle.isWaiting, board.contains(record) else { return [] }
            let here = board.scheduler.dependencies(of: record.position).map { edge in
                OperationDependency(
                    record: board.record(at: edge.dependency),
                    policy: edge.policy == .ending ? .ending : .mustSucceed
                )
            }
            return (here + (record.extras?.foreignDependencies ?? [])).sorted { $0.record.id < $1.record.id }
        }
    }
}

extension SchedulerBoard {
    /// Throws if an operation has started or ended; its dependencies don't matter any more.
    fileprivate func checkUnstarted(_ handle: OperationRecord, _ record: OperationRecord) throws {
        guard handle.lifecycle.isWaiting, record.lifecycle.isWaiting, contains(record) else {
            throw OperationError(
                .alreadyStarted,
                "\(record.name) has started or ended, so it accepts no dependencies. Await the other operation in main."
            )
        }
    }

    /// Adds a dependency, or ends the operation if the dependency has ended here so that the operation may not run.
    ///
    /// Only the other supervisor knows whether an operation of another supervisor has ended.
    fileprivate mutating func addDependency(_ dependency: OperationDependency, of record: OperationRecord) {
        let other = dependency.record
        if other.core !== record.core {
            record.madeExtras.foreignDependencies.append(dependency)
            scheduler.addForeignDependency(of: record.position)
            WaitGraph.noteUnsettled(1)
        } else if !other.hasEnded {
            scheduler.addDependency(of: record.position, on: other.position, dependency.edgePolicy)
            passRaisesOn()
        } else if dependency.policy == .mustSucceed, let error = other.failure {
            withdraw(record, error)
        }
        tellChanges()
    }

    fileprivate func canRemoveDependencies(of record: OperationRecord, on other: OperationRecord) -> Bool {
        record.lifecycle.isWaiting && contains(record)
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
