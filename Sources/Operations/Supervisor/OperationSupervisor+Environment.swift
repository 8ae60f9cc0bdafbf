/// Time and randomness for work beside the supervisor's operations, so that a simulation injects them once.
extension OperationSupervisor {
    /// The clock that operations use.
    package nonisolated var clock: any Clock<Duration> { core.environment.configuration.clock }

    /// The time since the supervisor was created, by its clock.
    package nonisolated var now: Duration { core.environment.now() }

    /// A random number from 0 up to 1.
    package nonisolated func random() -> Double { core.environment.configuration.random() }
}
