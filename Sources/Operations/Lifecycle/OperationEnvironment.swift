import Logging
import ThreadSupport
import Tracing

/// What all operations of a supervisor share: the configuration and what follows from it.
final class OperationEnvironment: Sendable {
    /// The time since the supervisor was created.
    let now: @Sendable () -> Duration
    /// Whether messages are discarded, so that they needn't be formatted.
    private let isSilent: Bool
    let metrics: SupervisorMetrics?
    /// The tracer; `nil` if it's the no-op tracer.
    let tracer: (any Tracer)?
    /// Whether every run has a span or a watchdog.
    let isObserving: Bool
    /// The number of the task priority, as in the options.
    let rawTaskPriority: UInt8?
    /// The configuration that the supervisor was created with; the supervisor may have another width now, or be suspended.
    let configuration: OperationSupervisor.Configuration

    init(_ configuration: OperationSupervisor.Configuration) {
        var configuration = configuration
        // With less, no operation could ever be added, and callers that wait for room would wait for ever.
        configuration.capacity = configuration.capacity.map { max(1, $0) }
        self.configuration = configuration
        now = configuration.clock.stopwatch()
        isSilent = configuration.logger.handler is SwiftLogNoOpLogHandler
        metrics = SupervisorMetrics(supervisor: configuration.name)
        let tracer = InstrumentationSystem.tracer
        self.tracer = tracer is NoOpTracer ? nil : tracer
        isObserving = self.tracer != nil || configuration.stallTimeout != nil
        rawTaskPriority = configuration.taskPriority?.rawValue
    }

    /// Whether a message of this level is logged.
    func logs(_ level: Logger.Level) -> Bool { !isSilent && configuration.logger.logLevel <= level }

    /// Sleeps on the clock, at most a hundred years, because clocks trap when the deadline of a sleep overflows.
    func sleep(for duration: Duration) async throws {
        try await configuration.clock.sleep(for: min(duration, .seconds(100 * 365 * 86_400)))
    }
}
