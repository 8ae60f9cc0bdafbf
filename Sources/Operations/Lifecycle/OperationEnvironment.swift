import CoreMetrics
import Logging
import ThreadSupport
import Tracing

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What all operations of a supervisor share: the clock, randomness, logging and the executors.
final class OperationEnvironment: Sendable {
    let clock: any Clock<Duration>
    /// The time since the supervisor was created.
    let now: @Sendable () -> Duration
    let random: @Sendable () -> Double
    /// The supervisor's name.
    let name: String
    let logger: Logger
    /// Whether messages are discarded, so that they needn't be formatted.
    private let isSilent: Bool
    let metrics: SupervisorMetrics?
    /// The tracer; `nil` if it's the no-op tracer.
    let tracer: (any Tracer)?
    /// Whether every run has a span or a watchdog.
    let isObserving: Bool
    let executor: (any TaskExecutor)?
    /// The number of the task priority, as in the options.
    let rawTaskPriority: UInt8?
    let blockingExecutor: (any TaskExecutor)?
    let temporaryDirectory: URL?
    let stallTimeout: Duration?
    let stallPolicy: OperationSupervisor.Configuration.StallPolicy

    init(_ configuration: OperationSupervisor.Configuration) {
        clock = configuration.clock
        now = configuration.clock.stopwatch()
        random = configuration.random
        name = configuration.name
        logger = configuration.logger
        isSilent = configuration.logger.handler is SwiftLogNoOpLogHandler
        metrics = SupervisorMetrics(supervisor: configuration.name)
        let tracer = InstrumentationSystem.tracer
        self.tracer = tracer is NoOpTracer ? nil : tracer
        isObserving = self.tracer != nil || configuration.stallTimeout != nil
        executor = configuration.executor
        rawTaskPriority = configuration.taskPriority?.rawValue
        blockingExecutor = configuration.blockingExecutor
        temporaryDirectory = configuration.temporaryDirectory
        stallTimeout = configuration.stallTimeout
        stallPolicy = configuration.stallPolicy
    }

    /// Whether a message of this level is logged.
    func logs(_ level: Logger.Level) -> Bool { !isSilent && logger.logLevel <= level }

    /// Sleeps on the clock, at most a hundred years, because clocks trap when the deadline of a sleep overflows.
    func sleep(for duration: Duration) async throws {
        try await clock.sleep(for: min(duration, .seconds(100 * 365 * 86_400)))
    }
}
