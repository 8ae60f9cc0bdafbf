public import Operations
public import ServiceLifecycle

/// A supervisor as a service, which lives as long as its service group and shuts down with it in bounded time.
///
/// ```swift
/// let supervisor = OperationSupervisor(width: 4)
/// let group = ServiceGroup(
///     services: [database, OperationSupervisorService(supervisor, grace: .seconds(5)), server],
///     gracefulShutdownSignals: [.sigterm],
///     logger: logger
/// )
/// try await group.run()
/// ```
///
/// A group shuts its services down in reverse order. Put the supervisor before the services that add operations to it, so
/// that it shuts down after them, and after the services that its operations use.
///
/// The grace period is a parameter here and not in the supervisor's configuration because it depends on the group's own
/// limits: it must be shorter than `ServiceGroupConfiguration.maximumGracefulShutdownDuration` and
/// `ServiceGroupConfiguration.maximumCancellationDuration`, or the group gives up first.
public struct OperationSupervisorService: Service {
    /// The supervisor that is shut down with the group.
    public let supervisor: OperationSupervisor
    /// How long operations have to end once they are cancelled, by the supervisor's clock.
    public let grace: Duration

    /// Creates a service for a supervisor, which accepts operations even before the service runs.
    ///
    /// - Parameters:
    ///   - supervisor: The supervisor.
    ///   - grace: How long operations have to end once they are cancelled, by the supervisor's clock.
    public init(_ supervisor: OperationSupervisor, grace: Duration = .seconds(10)) {
        self.supervisor = supervisor
        self.grace = grace
    }

    /// Returns once a graceful shutdown was triggered and every operation has ended or was abandoned.
    ///
    /// It shuts down like `OperationSupervisor.shutdown(grace:)`: new operations are refused, all others are cancelled, and
    /// operations that don't end within the grace period are abandoned. If the shutdown was triggered before this call, it
    /// happens at once.
    ///
    /// - Throws: `CancellationError` if the task was cancelled, which shuts the supervisor down in the same way.
    public func run() async throws {
        let (stopped, stop) = AsyncStream.makeStream(of: Void.self)
        await withTaskCancellationOrGracefulShutdownHandler {
            for await _ in stopped {}
        } onCancelOrGracefulShutdown: {
            stop.finish()
        }
        // Waits even if the task is cancelled: the grace period bounds the wait.
        await supervisor.shutdown(grace: grace)
        try Task.checkCancellation()
    }
}
