public import Operations
public import ServiceLifecycle

/// A supervisor as a service: it lives as long as its service group, and ends in bounded time with it.
///
/// ```swift
/// let supervisor = OperationSupervisor(width: 4)
/// let group = ServiceGroup(
///     services: [server, OperationSupervisorService(supervisor, grace: .seconds(5))],
///     gracefulShutdownSignals: [.sigterm],
///     logger: logger
/// )
/// try await group.run()
/// ```
///
/// A group shuts its services down in the reverse of their order: put the supervisor before the services that add
/// operations to it, so that it goes last, and after those that its operations use.
///
/// The grace is said here and not in the supervisor's configuration because it belongs beside the group's own limits: it
/// must be shorter than `ServiceGroupConfiguration.maximumGracefulShutdownDuration` and
/// `ServiceGroupConfiguration.maximumCancellationDuration`, or the group gives up first.
public struct OperationSupervisorService: Service {
    /// The supervisor whose operations are ended with the group.
    public let supervisor: OperationSupervisor
    /// How long operations have to end once they are cancelled, by the supervisor's clock.
    public let grace: Duration

    /// Makes a service of a supervisor, which takes operations before the service runs too.
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
    /// The shutdown is that of `OperationSupervisor.shutdown(grace:)`: nothing more is taken, what there is
    /// is cancelled, and what doesn't end in the grace is abandoned. If it was triggered before this is called, it
    /// happens at once.
    ///
    /// - Throws: `CancellationError` if the task was cancelled, which ends the operations in the same way.
    public func run() async throws {
        let (stopped, stop) = AsyncStream.makeStream(of: Void.self)
        await withTaskCancellationOrGracefulShutdownHandler {
            for await _ in stopped {}
        } onCancelOrGracefulShutdown: {
            stop.finish()
        }
        // Waits also where the task is cancelled: the grace bounds it.
        await supervisor.shutdown(grace: grace)
        try Task.checkCancellation()
    }
}
