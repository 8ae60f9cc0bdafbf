/// Runs operations: as many at once as its width allows, in the order of their dependencies, priorities and age.
///
/// ```swift
/// let supervisor = OperationSupervisor(width: 2)
/// let photo = supervisor.add(Download(url))
/// let small = photo.then { Thumbnail(photo: $0) }
/// let stored = supervisor.add(Cleanup(), after: [photo.ending])
/// show(try await small.value)
/// try await supervisor.drain()
/// ```
///
/// Adding, cancelling and looking are synchronous and can be done from anywhere; what waits is isolated to the actor.
/// Operations that run keep the supervisor's scheduler alive until they have ended. Those that can't start, because the
/// supervisor is suspended when its last reference goes, are cancelled.
///
/// An operation that waits — in ``OperationContext/pause(awaiting:_:)``, for the value of another one, for its children,
/// for room — gives its place to others meanwhile. A wait among operations that would never end is refused with an
/// ``OperationError`` that names them.
public actor OperationSupervisor {
    nonisolated let core: SchedulerCore
    var shutdownTask: Task<[OperationDependency], Never>?

    /// Creates a supervisor.
    ///
    /// - Parameter configuration: Width, clock, logger and executors.
    public init(_ configuration: Configuration = Configuration()) {
        core = SchedulerCore(configuration)
    }

    /// Creates a supervisor that runs `width` operations at once.
    public init(width: Int) {
        self.init(Configuration(width: width))
    }

    deinit {
        // Nobody is left who could let them go on. The oldest first, or dropping a long chain would recurse.
        guard core.withBoard({ $0.scheduler.isSuspended || $0.scheduler.width == 0 }) else { return }
        for record in core.records where record.state == .waiting || record.state == .ready { record.cancel() }
    }

    // MARK: Adding

    /// Adds an operation.
    ///
    /// An operation that the supervisor doesn't take, because it is full or shut down, never runs: its handle says at once
    /// that it failed, with an ``OperationError`` that says why.
    ///
    /// - Parameters:
    ///   - operation: The operation. The same one can't be added again: that traps.
    ///   - dependencies: What must have ended before; `x` must have finished, `x.ending` only ended. May belong to other
    ///     supervisors. If one that must finish fails or is cancelled, so does or is the new operation.
    ///   - options: Name, priority, keys and the rest; what is usual where this is `nil`.
    /// - Returns: The operation's handle.
    @discardableResult
    public nonisolated func add<Work: Operation>(
        _ operation: Work,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Work.Output> {
        // Options are large: where there are none, nothing of them is copied.
        guard let options else { return add(WorkRecord(operation, core: core), after: dependencies) }
        guard let key = options.coalescingKey else {
            return add(WorkRecord(operation, options: options, core: core), after: dependencies)
        }
        let dependencies = dependencies.map(\.dependency)
        return OperationHandle(record: core.addCoalescing(operation, key, after: dependencies, options: options))
    }

    private nonisolated func add<Output>(
        _ record: TypedOperationRecord<Output>,
        after dependencies: [any OperationReference]
    ) -> OperationHandle<Output> {
        core.add(record, after: dependencies.lazy.map { $0.dependency })
        return OperationHandle(record: record)
    }

    /// Adds operations of one kind at once: none starts before all are in.
    ///
    /// - Parameters:
    ///   - operations: The operations, in the order of their age.
    ///   - dependencies: What must have ended before any of them.
    ///   - options: Name, priority, keys and the rest, for all of them. A coalescing key has no effect here.
    /// - Returns: Their handles, in the same order.
    @discardableResult
    public nonisolated func add<Work: Operation>(
        _ operations: [Work],
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> [OperationHandle<Work.Output>] {
        let records = operations.map { WorkRecord($0, options: options, core: core) }
        core.add(records, after: dependencies.lazy.map { $0.dependency })
        return records.map { OperationHandle(record: $0) }
    }

    /// Adds an operation whose type isn't known.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - dependencies: What must have ended before.
    ///   - options: Name, priority, keys and the rest.
    /// - Returns: A reference to the operation, without its output.
    @discardableResult
    @_disfavoredOverload
    public nonisolated func add(
        _ operation: any Operation,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> any OperationReference {
        func open<Work: Operation>(_ operation: Work) -> any OperationReference {
            add(operation, after: dependencies, options: options) as OperationHandle<Work.Output>
        }
        return open(operation)
    }

    /// Adds an operation that is made when its turn comes, and anew for each attempt.
    ///
    /// - Parameters:
    ///   - dependencies: What must have ended before.
    ///   - options: Name, priority, keys, ``OperationOptions/retry`` and the rest.
    ///   - make: Makes an operation; what it throws counts as a failed attempt.
    /// - Returns: The operation's handle.
    @discardableResult
    public nonisolated func add<Work: Operation>(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil,
        making make: @escaping @Sendable () throws -> Work
    ) -> OperationHandle<Work.Output> {
        let record = WorkRecord<Work>(options: options, core: core, make: make)
        core.add(record, after: dependencies.lazy.map { $0.dependency })
        return OperationHandle(record: record)
    }

    /// Adds an operation that runs alone: after everything that was added before it, before everything after it.
    ///
    /// It waits for paused work too, and everything waits while it is paused itself.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - dependencies: What must have ended before besides, in other supervisors.
    ///   - options: Name, priority and the rest.
    /// - Returns: The operation's handle.
    @discardableResult
    public nonisolated func addBarrier<Work: Operation>(
        _ operation: Work,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Work.Output> {
        let record = WorkRecord(operation, options: options, core: core)
        core.withBoard { _ in record.madeExtras.isBarrier = true }
        core.add(record, after: dependencies.lazy.map { $0.dependency })
        return OperationHandle(record: record)
    }

    /// Adds an operation that is made from the outputs of several, once all have finished.
    ///
    /// If one of them fails so does the new one with the same error, if one is cancelled so is the new one.
    ///
    /// - Parameters:
    ///   - inputs: The operations whose outputs are needed.
    ///   - options: Name, priority, keys and the rest.
    ///   - make: Makes the operation; what it throws is its failure.
    /// - Returns: The new operation's handle.
    @discardableResult
    public nonisolated func combine<each Input: Sendable, Next: Operation>(
        _ inputs: repeat OperationHandle<each Input>,
        options: OperationOptions? = nil,
        _ make: @escaping @Sendable (repeat each Input) throws -> Next
    ) -> OperationHandle<Next.Output> {
        var dependencies: [OperationDependency] = []
        repeat dependencies.append((each inputs).dependency)
        let record = WorkRecord<Next>(options: options, core: core) {
            try make(repeat (each inputs).record.finalResult.get())
        }
        core.add(record, after: dependencies)
        return OperationHandle(record: record)
    }

    // MARK: Control

    /// How many operations run at once.
    ///
    /// Lowering it stops nothing that runs.
    public nonisolated var width: Int {
        get { core.withBoard { $0.scheduler.width } }
        set { core.configure { $0.scheduler.setWidth(newValue) } }
    }

    /// Whether operations that haven't started are held back.
    ///
    /// What runs, its children, and what comes back from a pause go on. A supervisor that suspended itself, because of its
    /// ``Configuration/restartIntensity``, goes on when this is set to `false`.
    public nonisolated var isSuspended: Bool {
        get { core.withBoard { $0.scheduler.isSuspended } }
        set { core.configure { $0.setSuspended(newValue) } }
    }

    /// The operations that haven't ended, the oldest first.
    public nonisolated var operations: [any OperationReference] {
        core.records.map { OperationDependency(record: $0, policy: .mustSucceed) }
    }

    /// How many operations run now, not counting paused ones.
    public nonisolated var runningCount: Int { core.withBoard { $0.scheduler.runningCount } }

    /// Cancels every operation that hasn't ended; ones that are added later aren't touched.
    public nonisolated func cancelAll() {
        // The newest first, or one that only waits for another's end would start when that is cancelled.
        core.cancelAll()
    }
}
