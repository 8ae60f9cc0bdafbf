public import Logging

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension OperationSupervisor {
    /// The width of a supervisor that isn't given one: the number of active processors, and at least 4.
    ///
    /// At least 4, because operations of most apps spend more time waiting for files and servers than computing.
    public static var defaultWidth: Int { max(4, ProcessInfo.processInfo.activeProcessorCount) }

    /// The configuration of a supervisor.
    public struct Configuration: Sendable {
        /// What the supervisor does with an operation that stalls, besides a warning in the log and an event.
        public enum StallPolicy: Sendable, Hashable {
            /// The supervisor does nothing else.
            case report
            /// The supervisor cancels the operation, which fails if its `main` throws `CancellationError` then.
            case cancel
        }

        /// The supervisor's name in logs, metrics and explanations.
        public var name: String
        /// How many operations run at once.
        ///
        /// Paused operations don't count. By default ``OperationSupervisor/defaultWidth``.
        public var width: Int
        /// The priority of the tasks that run operations, for the operating system: Swift's form of a quality of service.
        ///
        /// Swift's default for unstructured tasks where this is `nil`. ``OperationOptions/taskPriority`` of an operation
        /// replaces it.
        public var taskPriority: TaskPriority?
        /// Whether the supervisor starts no operations until it is resumed.
        public var isSuspended: Bool
        /// The maximum number of operations in the supervisor: waiting and running, not counting children.
        ///
        /// When the supervisor is full, `add` refuses and ``OperationSupervisor/addWhenRoom(_:after:options:)`` waits.
        /// Less than 1 counts as 1.
        public var capacity: Int?
        /// The failure rate above which the supervisor suspends itself.
        public var restartIntensity: RestartIntensity?
        /// How long an operation may run without reporting progress before it counts as stalled.
        ///
        /// The stall is detected after at least this time and at most twice this time.
        public var stallTimeout: Duration?
        /// What the supervisor does with an operation that stalls.
        public var stallPolicy: StallPolicy
        /// The logger for messages; by default they are discarded.
        public var logger = Logger(label: "Operations", factory: { _ in SwiftLogNoOpLogHandler() })
        /// The clock that operations use.
        public var clock: any Clock<Duration>
        /// The source of randomness for the jitter of retries: a number from 0 up to 1.
        public var random: @Sendable () -> Double = { .random(in: 0..<1) }
        /// The executor that runs operations; Swift's own pool where this is `nil`.
        ///
        /// A simulation sets its own executor here.
        public var executor: (any TaskExecutor)?
        /// The executor of blocking work, as in ``OperationContext/blocking(_:)``; dedicated threads where this is `nil`.
        ///
        /// A simulation sets its own executor here.
        public var blockingExecutor: (any TaskExecutor)?
        /// Where operations' temporary directories are created; the system's location where this is `nil`.
        ///
        /// A whole store may be copied there: choose a volume of this device with enough space. Before a directory is
        /// created, directories that dead processes of this device left there are removed.
        public var temporaryDirectory: URL?

        /// Creates a configuration; everything can be set afterwards too.
        public init(
            name: String = "operations",
            width: Int = OperationSupervisor.defaultWidth,
            taskPriority: TaskPriority? = nil,
            isSuspended: Bool = false,
            capacity: Int? = nil,
            restartIntensity: RestartIntensity? = nil,
            stallTimeout: Duration? = nil,
            stallPolicy: StallPolicy = .report,
            logger: Logger? = nil,
            clock: any Clock<Duration> = ContinuousClock(),
            random: (@Sendable () -> Double)? = nil,
            executor: (any TaskExecutor)? = nil,
            blockingExecutor: (any TaskExecutor)? = nil,
            temporaryDirectory: URL? = nil
        ) {
            self.name = name
            self.width = width
            self.taskPriority = taskPriority
            self.isSuspended = isSuspended
            self.capacity = capacity
            self.restartIntensity = restartIntensity
            self.stallTimeout = stallTimeout
            self.stallPolicy = stallPolicy
            if let logger { self.logger = logger }
            self.clock = clock
            if let random { self.random = random }
            self.executor = executor
            self.blockingExecutor = blockingExecutor
            self.temporaryDirectory = temporaryDirectory
        }
    }
}
