public import Logging

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension OperationSupervisor {
    /// What a supervisor is made with.
    public struct Configuration: Sendable {
        /// What happens to an operation that stalls, besides a warning in the log and an event.
        public enum StallPolicy: Sendable, Hashable {
            /// Nothing.
            case report
            /// It is cancelled, and fails.
            case cancel
        }

        /// What the supervisor is called in metrics.
        public var name = "operations"
        /// How many operations run at once.
        ///
        /// A paused one doesn't count.
        public var width = 4
        /// Whether the supervisor holds operations back until it is told to go on.
        public var isSuspended = false
        /// How many operations the supervisor holds at once, waiting and running, children not counted.
        ///
        /// When it is full, `add` refuses and ``OperationSupervisor/addWhenRoom(_:after:options:)`` waits.
        public var capacity: Int?
        /// How many failures in how short a time make the supervisor suspend itself.
        public var restartIntensity: RestartIntensity?
        /// How long an operation may run without reporting progress before it counts as stalled.
        ///
        /// It is noticed after at least this time and at most twice as much.
        public var stallTimeout: Duration?
        /// What happens to an operation that stalls.
        public var stallPolicy = StallPolicy.report
        /// Where messages go; nowhere by default.
        public var logger = Logger(label: "Operations", factory: { _ in SwiftLogNoOpLogHandler() })
        /// Time, as operations see it.
        public var clock: any Clock<Duration> = ContinuousClock()
        /// Where chance comes from, for the jitter of retries: a number from 0 up to 1.
        public var random: @Sendable () -> Double = { .random(in: 0..<1) }
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
        /// A whole store may be copied there: choose a volume of this device with room for it. What processes of this
        /// device left there when they died is removed before the next directory is made.
        public var temporaryDirectory: URL?

        /// Creates a configuration; everything else can be set afterwards.
        public init(
            width: Int = 4,
            isSuspended: Bool = false,
            capacity: Int? = nil,
            logger: Logger? = nil,
            clock: any Clock<Duration> = ContinuousClock(),
            executor: (any TaskExecutor)? = nil,
            blockingExecutor: (any TaskExecutor)? = nil,
            temporaryDirectory: URL? = nil
        ) {
            self.width = width
            self.isSuspended = isSuspended
            self.capacity = capacity
            if let logger { self.logger = logger }
            self.clock = clock
            self.executor = executor
            self.blockingExecutor = blockingExecutor
            self.temporaryDirectory = temporaryDirectory
        }
    }
}
