public import Logging

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

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
public actor OperationSupervisor {
    /// What a supervisor is made with.
    public struct Configuration: Sendable {
        /// How many operations run at once.
        ///
        /// A paused one doesn't count.
        public var width: Int
        /// Whether the supervisor holds operations back until it is told to go on.
        public var isSuspended: Bool
        /// Where messages go; nowhere by default.
        public var logger: Logger
        /// Time, as operations see it.
        public var clock: any Clock<Duration>
        /// Where operations run; Swift's own pool where this is `nil`.
        ///
        /// A simulation puts its executor here.
        public var executor: (any TaskExecutor)?
        /// Where work that blocks runs; threads made for it where this is `nil`.
        ///
        /// A simulation puts its executor here.
        public var blockingExecutor: (any TaskExecutor)?

        /// Where operations' temporary directories are made; the system's place where this is `nil`.
        ///
        /// A whole store may be copied there: choose a volume with room for it.
        public var temporaryDirectory: URL?

        /// Creates a configuration.
        public init(
            width: Int = 4,
            isSuspended: Bool = false,
            logger: Logger = Logger(label: "Operations", factory: { _ in SwiftLogNoOpLogHandler() }),
            clock: any Clock<Duration> = ContinuousClock(),
            executor: (any TaskExecutor)? = nil,
            blockingExecutor: (any TaskExecutor)? = nil,
            temporaryDirectory: URL? = nil
        ) {
            self.width = width
            self.isSuspended = isSuspended
            self.logger = logger
            self.clock = clock
            self.executor = executor
            self.blockingExecutor = blockingExecutor
            self.temporaryDirectory = temporaryDirectory
        }
    }

    nonisolated let core: SchedulerCore
    var background = BackgroundActivity()

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
        guard core.read({ $0.isSuspended || $0.width == 0 }) else { return }
        for record in core.records where record.state == .waiting || record.state == .ready { record.cancel() }
    }

    // MARK: Adding

    /// Adds an operation.
    ///
    /// - Parameters:
    ///   - operation: The operation. The same one can't be added again: that traps.
    ///   - dependencies: What must have ended before; `x` must have finished, `x.ending` only ended. May belong to other
    ///     supervisors. If one that must finish fails or is cancelled, so does or is the new operation.
    ///   - options: Name, priority, user info.
    /// - Returns: The operation's handle.
    @discardableResult
    public nonisolated func add<Output: Sendable>(
        _ operation: some Operation<Output>,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions = OperationOptions()
    ) -> OperationHandle<Output> {
        let record = makeRecord(operation, options)
        core.add([(record, dependencies.map(\.dependency))])
        return OperationHandle(record: record)
    }

    /// Adds operations of one kind at once: none starts before all are in.
    ///
    /// - Parameters:
    ///   - operations: The operations, in the order of their age.
    ///   - dependencies: What must have ended before any of them.
    ///   - options: Name, priority, user info, for all of them.
    /// - Returns: Their handles, in the same order.
    @discardableResult
    public nonisolated func add<Work: Operation>(
        _ operations: [Work],
        after dependencies: [any OperationReference] = [],
        options: OperationOptions = OperationOptions()
    ) -> [OperationHandle<Work.Output>] {
        let records = operations.map { makeRecord($0, options) }
        let dependencies = dependencies.map(\.dependency)
        core.add(records.map { ($0, dependencies) })
        return records.map { OperationHandle(record: $0) }
    }

    private nonisolated func makeRecord<Output: Sendable>(
        _ operation: some Operation<Output>,
        _ options: OperationOptions
    ) -> TypedOperationRecord<Output> {
        TypedOperationRecord(
            .operation(operation),
            options: options,
            environment: core.environment,
            scheduler: core
        )
    }

    // MARK: Control

    /// How many operations run at once.
    ///
    /// Lowering it stops nothing that runs.
    public nonisolated var width: Int {
        get { core.read(\.width) }
        set { core.configure { $0.setWidth(newValue) } }
    }

    /// Whether operations that haven't started are held back.
    ///
    /// What runs, and what comes back from a pause, goes on.
    public nonisolated var isSuspended: Bool {
        get { core.read(\.isSuspended) }
        set { core.configure { $0.isSuspended = newValue } }
    }

    /// The operations that haven't ended, the oldest first.
    public nonisolated var operations: [any OperationReference] {
        core.records.map { OperationDependency(record: $0, policy: .mustSucceed) }
    }

    /// How many operations run now, not counting paused ones.
    public nonisolated var runningCount: Int { core.read(\.runningCount) }

    /// How far all operations have come that were added since the supervisor was last empty.
    public nonisolated var progress: SupervisorProgress { core.progress }

    /// Cancels every operation that hasn't ended; ones that are added later aren't touched.
    public nonisolated func cancelAll() {
        for record in core.records { record.cancel() }
    }

    /// Returns when every operation has ended, also those that are added meanwhile.
    ///
    /// A suspended supervisor with operations in it doesn't drain until it goes on.
    ///
    /// - Throws: `CancellationError` if the waiting task is cancelled; the operations aren't touched by that.
    public func drain() async throws {
        try await core.drain()
    }
}
