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
/// Adding, cancelling and inspecting operations is synchronous and possible from any context. Methods that wait are
/// isolated to the actor. Running operations keep the supervisor's scheduler alive until they have ended. A
/// supervisor that is suspended, of width 0 or in the background holds operations back. When its last reference is released,
/// these operations are cancelled.
///
/// An operation releases its slot while it waits: in ``OperationContext/pause(awaiting:_:)``, for the value of another
/// operation, for its children, or for room. A wait among operations that would never end is refused with an
/// ``OperationError`` that names them.
public actor OperationSupervisor {
    nonisolated let core: SchedulerCore
    var shutdownTask: Task<[OperationDependency], Never>?

    /// Creates a supervisor.
    ///
    /// - Parameter configuration: Width, clock, logger and executors.
    public init(_ configuration: Configuration = Configuration()) {
        core = SchedulerCore(configuration)
        core.withBoard { $0.listeners.supervisor = self }
    }

    /// Creates a supervisor that runs `width` operations at once.
    public init(width: Int) {
        self.init(Configuration(width: width))
    }

    deinit {
        core.withBoard { $0.releaseSupervisor() }
        // Oldest first, because releasing a long chain of dependencies would recurse otherwise.
        guard core.withBoard({ $0.holdsBack(mayContinueInBackground: false) }) else { return }
        for record in core.records where core.withBoard({ $0.holdsBack(record) }) { core.cancel(record) }
    }

    // MARK: Adding

    /// Adds an operation.
    ///
    /// If the supervisor is full or shut down it refuses the operation, which never runs: its handle has failed at once,
    /// with an ``OperationError`` that gives the reason.
    ///
    /// - Parameters:
    ///   - operation: The operation. Adding it again before it has ended traps: create a new one for each run.
    ///   - dependencies: The operations that must end first: `x` must succeed, `x.ending` only has to end. They may belong
    ///     to other supervisors. If a dependency that must succeed fails or is cancelled, so is the new operation.
    ///   - options: Name, priority, keys and the rest; the defaults where this is `nil`.
    /// - Returns: The operation's handle.
    @discardableResult
    public nonisolated func add<Work: Operation>(
        _ operation: Work,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Work.Output> {
        // Options are large, so an operation without options doesn't copy any.
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
        core.add(record, after: dependencies)
        return OperationHandle(record: record)
    }

    /// Adds operations of one type together: none starts before all are added.
    ///
    /// - Parameters:
    ///   - operations: The operations, in the order in which they count as added.
    ///   - dependencies: The operations that must end before any of them starts.
    ///   - options: Name, priority, keys and the rest, for all of them. A coalescing key has no effect here.
    /// - Returns: Their handles, in the same order.
    @discardableResult
    public nonisolated func add<Work: Operation>(
        _ operations: [Work],
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> [OperationHandle<Work.Output>] {
        let records = operations.map { WorkRecord($0, options: options, core: core) }
        core.add(records, after: dependencies)
        return records.map { OperationHandle(record: $0) }
    }

    /// Adds an operation whose type isn't known.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - dependencies: The operations that must end first.
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

    /// Adds operations of different types together: none starts before all are added.
    ///
    /// - Parameters:
    ///   - operations: The operations, in the order in which they count as added.
    ///   - dependencies: The operations that must end before any of them starts.
    ///   - options: Name, priority, keys and the rest, for all of them. A coalescing key has no effect here.
    /// - Returns: References to them, in the same order, without their outputs.
    @discardableResult
    @_disfavoredOverload
    public nonisolated func add(
        _ operations: [any Operation],
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> [any OperationReference] {
        func record<Work: Operation>(_ operation: Work) -> OperationRecord {
            WorkRecord(operation, options: options, core: core)
        }
        let records = operations.map { record($0) }
        core.add(records, after: dependencies)
        return records.map { OperationDependency(record: $0) }
    }

    /// Adds an operation that is created when its turn comes, and again for each attempt.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Name, priority, keys, ``OperationOptions/retry`` and the rest.
    ///   - make: Creates an operation, or returns that of the previous attempt again; an error that it throws counts as a
    ///     failed attempt.
    /// - Returns: The operation's handle.
    @discardableResult
    public nonisolated func add<Work: Operation>(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil,
        making make: @escaping @Sendable () throws -> Work
    ) -> OperationHandle<Work.Output> {
        add(WorkRecord(options: options, core: core, make: make), after: dependencies)
    }

    /// Adds an operation that runs alone: after all operations that were added before it, before all that are added later.
    ///
    /// The barrier waits for paused operations too, and all later operations wait while the barrier is paused.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - dependencies: Further operations that must end first, in other supervisors.
    ///   - options: Name, priority and the rest.
    /// - Returns: The operation's handle.
    @discardableResult
    public nonisolated func addBarrier<Work: Operation>(
        _ operation: Work,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Work.Output> {
        let record = WorkRecord(operation, options: options, core: core)
        record.madeExtras.isBarrier = true
        return add(record, after: dependencies)
    }

    /// Adds an operation that is created from the outputs of several others, once all have finished.
    ///
    /// If one of them fails, the new operation fails with the same error. If one is cancelled, so is the new operation.
    ///
    /// - Parameters:
    ///   - inputs: The operations whose outputs are needed.
    ///   - options: Name, priority, keys and the rest. A coalescing key has no effect here.
    ///   - make: Creates the operation; an error that it throws fails the new operation.
    /// - Returns: The new operation's handle.
    @discardableResult
    public nonisolated func combine<each Input: Sendable, Next: Operation>(
        _ inputs: repeat OperationHandle<each Input>,
        options: OperationOptions? = nil,
        _ make: @escaping @Sendable (repeat each Input) throws -> Next
    ) -> OperationHandle<Next.Output> {
        var dependencies: [any OperationReference] = []
        repeat dependencies.append((each inputs).dependency)
        let record = WorkRecord<Next>(options: options, core: core) {
            try make(repeat (each inputs).record.finalResult.get())
        }
        record.madeExtras.inputs = dependencies.map(\.id)
        core.add(record, after: dependencies)
        return OperationHandle(record: record)
    }

    // MARK: Identity

    /// The supervisor's name in logs, metrics and explanations, from its ``Configuration``.
    public nonisolated var name: String { core.environment.configuration.name }

    /// The supervisor whose operation, or operation's phase, the current task runs.
    ///
    /// `nil` outside of operations, in tasks that don't inherit task-local values, and if the supervisor was released.
    public static var current: OperationSupervisor? { CurrentOperation.record?.core.supervisor }

    // MARK: Control

    /// How many operations run at once.
    ///
    /// Lowering the width doesn't stop running operations.
    public nonisolated var width: Int {
        get { core.withBoard { $0.scheduler.width } }
        set { core.configure { $0.scheduler.setWidth(newValue) } }
    }

    /// Whether operations that haven't started are held back.
    ///
    /// Running operations continue, their children start, and paused operations resume. A supervisor that suspended itself,
    /// because of its ``Configuration/restartIntensity``, is resumed by setting this to `false`.
    public nonisolated var isSuspended: Bool {
        get { core.withBoard { $0.scheduler.isSuspended } }
        set { core.configure { $0.setSuspended(newValue) } }
    }

    /// References to the operations that haven't ended, the oldest first, and to each handle that joined an operation.
    ///
    /// Operations that a shutdown abandoned are listed until their `main` returns.
    public nonisolated var operations: [any OperationReference] {
        core.records.map { OperationDependency(record: $0) }
    }

    /// How many operations haven't ended.
    ///
    /// Joined handles and abandoned operations don't count.
    public nonisolated var operationCount: Int { core.withBoard { $0.operationCount } }

    /// How many operations run now, not counting paused ones.
    public nonisolated var runningCount: Int { core.withBoard { $0.scheduler.runningCount } }

    /// Cancels every operation that hasn't ended; operations that are added later aren't affected.
    public nonisolated func cancelAll() {
        core.cancel(core.records)
    }
}
