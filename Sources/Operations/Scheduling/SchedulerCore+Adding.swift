// MARK: - Adding

extension SchedulerCore {
    /// Identifies an operation's work: operations with equal identifiers do the same work.
    struct CoalescingID: Hashable, Sendable {
        let type: ObjectIdentifier
        let key: String
    }

    /// Adds one operation.
    func add(_ record: OperationRecord, after dependencies: [any OperationReference]) {
        add(CollectionOfOne(record), after: dependencies)
    }

    /// Adds operations with the same dependencies, in order; none starts before all are added.
    ///
    /// An operation that is refused ends with the reason.
    func add(
        _ records: some Collection<OperationRecord>,
        after dependencies: [any OperationReference],
        isAdmitted: Bool = false,
        by caller: OperationRecord? = nil
    ) {
        for record in records where record.hasOptions { record.makeOwnTask() }
        var foreign: [(OperationRecord, OperationDependency)] = []
        withBoard { board in
            // First, so that the room of an operation that ends at once goes to the next caller that waits for it.
            if isAdmitted { board.useReservation(of: caller) }
            for record in records {
                if let refusal = board.refusal(of: record, isAdmitted: isAdmitted) {
                    board.refuse(record, refusal)
                } else {
                    foreign += board.add(record, after: dependencies, parent: nil)
                }
            }
            board.grantAll()
        }
        settle(foreign)
        for record in records where record.hasOptions { record.startDeadline() }
    }

    /// Registers operations with unfinished dependencies in other supervisors, and settles the ended ones.
    ///
    /// This happens outside the lock, so that two supervisors' locks are never held at once.
    func settle(_ foreign: [(OperationRecord, OperationDependency)]) {
        guard !foreign.isEmpty else { return }
        defer { WaitGraph.noteUnsettled(-foreign.count) }
        for (record, dependency) in foreign {
            let other = dependency.record
            let hasEnded = other.core.withBoard { _ in
                guard !other.hasEnded else { return true }
                other.madeExtras.foreignDependents[record.id, default: ForeignDependent(record: record)]
                    .policies.append(dependency.policy)
                return false
            }
            if hasEnded {
                let error = dependency.errorForDependents
                withBoard { $0.settleForeign(record, dependency, error) }
                continue
            }
            let priority: OperationPriority? = withBoard { board in
                guard board.contains(record) else { return nil }
                return board.scheduler.entries[Int(record.position)].priority
            }
            if let priority {
                other.core.withBoard { $0.raiseFromElsewhere(other, to: priority) }
            } else {
                // The operation ended before the other supervisor knew of it.
                other.core.withBoard { $0.forgetForeign(record, dependency) }
            }
        }
    }
}

/// A dependent in another supervisor, with the policies of its dependencies on this operation.
struct ForeignDependent {
    let record: OperationRecord
    var policies: [OperationDependency.Policy] = []
}

extension OperationDependency {
    /// Whether the other dependency is on the same operation, with the same policy.
    func isSame(_ other: Self) -> Bool { record === other.record && policy == other.policy }
    /// The policy as the scheduler knows it.
    var edgePolicy: Edges.Policy { policy == .ending ? .ending : .mustSucceed }
    /// The error that this dependency, which has ended, passes on to its dependents.
    var errorForDependents: (any Error)? { policy == .mustSucceed ? record.finalFailure : nil }
}

extension SchedulerBoard {
    func refusal(of record: OperationRecord, isAdmitted: Bool) -> OperationError? {
        if isShutDown {
            return OperationError(.shutDown, "The supervisor has been shut down and accepts no more operations.")
        }
        if wouldNeverStart(record) {
            return OperationError(
                .shutDown,
                "\(record.name) would never start: its supervisor was released while it held operations back. Keep a reference to it."
            )
        }
        guard let capacity = environment.configuration.capacity, !isAdmitted,
            scheduler.rootCount + reservedRoom >= capacity
        else { return nil }
        return OperationError(
            .noRoom,
            "The supervisor holds \(scheduler.rootCount) operations, and its capacity is \(capacity). Use addWhenRoom to wait."
        )
    }

    /// Ends an operation that is refused.
    mutating func refuse(_ record: OperationRecord, _ error: any Error) {
        record.id = .next()
        record.failure = error
        record.end()
        let former = takeOperation(of: record)
        if let extras = record.takeExtras() { drop(extras) }
        if let former { emit(.release(former)) }
    }

    /// Adds an operation.
    ///
    /// Returns its dependencies in other supervisors, which the caller must settle outside the lock.
    mutating func add(
        _ record: OperationRecord,
        after dependencies: [any OperationReference],
        parent: OperationRecord?
    ) -> [(OperationRecord, OperationDependency)] {
        record.id = .next()
        var addition = SchedulerState.Addition(id: record.id, priority: record.priority)
        swap(&addition.dependencies, &spareDependencies)
        defer {
            swap(&addition.dependencies, &spareDependencies)
            spareDependencies.removeAll(keepingCapacity: true)
        }
        var foreign: [(OperationRecord, OperationDependency)] = []
        var error: (any Error)?
        for reference in dependencies {
            let dependency = reference.dependency
            let other = dependency.record
            if other.core !== record.core {
                foreign.append((record, dependency))
            } else if !other.hasEnded {
                addition.dependencies.append((other.position, dependency.edgePolicy))
            } else if dependency.policy == .mustSucceed, error == nil {
                error = other.failure
            }
        }
        addition.foreignDependencyCount = foreign.count
        if let extras = record.extras { prepare(&addition, extras) }
        addition.parent = parent?.position
        if !foreign.isEmpty {
            addition.traits.insert(.hasForeignDependencies)
            record.madeExtras.foreignDependencies = foreign.map(\.1)
        }
        if let parent { record.madeExtras.parent = parent }
        insert(record, addition)
        passRaisesOn()
        if let error {
            withdraw(record, error)
            return []
        }
        if !foreign.isEmpty { WaitGraph.noteUnsettled(foreign.count) }
        return foreign
    }

    private func prepare(_ addition: inout SchedulerState.Addition, _ extras: OperationRecord.Extras) {
        addition.keys = extras.options.keys.sorted()
        if extras.options.mayContinueInBackground { addition.traits.insert(.mayContinueInBackground) }
        if extras.isBarrier { addition.traits.insert(.isBarrier) }
        if let target = extras.target {
            addition.traits.insert(.isJoined)
            addition.dependencies.append((target.position, .mirror))
        }
    }
}

// MARK: - Children

extension OperationRecord {
    func addChild(_ child: OperationRecord, after dependencies: [OperationDependency]) throws {
        child.makeOwnTask()
        let foreign: [(OperationRecord, OperationDependency)]
        do {
            foreign = try WaitGraph.addingEdges(from: self, to: dependencies.map(\.record)) { board in
                try check(child)
                let foreign = board.add(child, after: dependencies, parent: self)
                if lifecycle.isCancellationRequested { board.cancel(child, because: extras?.cancellationCause) }
                board.grantAll()
                return foreign
            }
        } catch {
            child.dropOwnTask()
            throw error
        }
        core.settle(foreign)
        child.startDeadline()
    }

    private func check(_ child: OperationRecord) throws {
        // The end of `main` checks for children only if there are extras.
        let extras = madeExtras
        guard lifecycle.mayRunMain, !extras.takesNoMoreChildren else {
            throw OperationError(.parentEnded, "\(name) has ended, so \(child.name) can't be added as its child.")
        }
        let missing = child.options.keys.subtracting(options.keys)
        guard missing.isEmpty else {
            let names = missing.sorted().map { "\"\($0)\"" }.joined(separator: ", ")
            throw OperationError(
                .keyNotHeld,
                "\(child.name) needs keys that its parent \(name) doesn't hold: \(names). Add them to the parent's options."
            )
        }
    }
}

// MARK: - Joining

extension SchedulerCore {
    /// Adds an operation, or joins an operation of the same work that hasn't started.
    ///
    /// Either way, the handle's record is a joined record.
    func addCoalescing<Work: Operation>(
        _ operation: Work,
        _ key: String,
        after dependencies: [OperationDependency],
        options: OperationOptions
    ) -> TypedOperationRecord<Work.Output> {
        let id = CoalescingID(type: ObjectIdentifier(Work.self), key: key)
        var given: WorkRecord<Work>? = WorkRecord(operation, options: options, core: self)
        given?.extras?.coalescingID = id
        given?.makeOwnTask()
        let (joined, target, foreign) = withBoard { board in
            let target: TypedOperationRecord<Work.Output>
            var foreign: [(OperationRecord, OperationDependency)] = []
            if let existing = board.coalescing[id] as? WorkRecord<Work>,
                board.canJoin(existing, after: dependencies, keys: options.keys)
            {
                target = existing
                existing.priority = max(existing.priority, options.priority)
                board.raise(existing, to: options.priority)
            } else if let given = given.take() {
                target = given
                if let refusal = board.refusal(of: given, isAdmitted: false) {
                    board.refuse(given, refusal)
                } else {
                    foreign = board.add(given, after: dependencies, parent: nil)
                    if given.lifecycle.isWaiting { board.coalescing[id] = given }
                }
            } else {
                preconditionFailure("an operation was added twice")
            }
            let joined = JoinedOperationRecord(target)
            board.join(joined, target)
            board.grantAll()
            return (joined, target, foreign)
        }
        // If the given operation isn't needed, it is released without having run.
        if let given {
            given.dropOwnTask()
            LiveOperations.remove(operation)
        } else {
            target.startDeadline()
        }
        settle(foreign)
        return joined
    }
}

extension SchedulerBoard {
    /// Whether `target` waits for everything that an operation with these dependencies and keys must wait for.
    fileprivate func canJoin(
        _ target: OperationRecord,
        after dependencies: [OperationDependency],
        keys: Set<ExclusionKey>
    ) -> Bool {
        guard target.lifecycle.isWaiting, !target.lifecycle.isCancellationRequested,
            scheduler.isOnSameSideOfBarriers(target.position), keys.isSubset(of: target.options.keys)
        else { return false }
        let waits = scheduler.dependencies(of: target.position)
        return dependencies.allSatisfy { dependency in
            let record = dependency.record
            // Only the other supervisor knows whether its operation has ended.
            guard record.core === target.core else { return false }
            guard !record.hasEnded else {
                return dependency.policy == .ending || record.failure == nil
            }
            return waits.contains { $0.dependency == record.position && $0.policy == dependency.edgePolicy }
        }
    }

    fileprivate mutating func join(_ record: OperationRecord, _ target: OperationRecord) {
        guard !target.hasEnded else {
            // The target was refused, or one of its dependencies had failed.
            record.id = .next()
            record.settleAsTarget()
            record.end()
            return
        }
        // Tells that the target is ready without the new handle, which is told separately.
        tellChanges()
        target.extras?.joinedCount += 1
        _ = add(record, after: [], parent: nil)
    }
}
