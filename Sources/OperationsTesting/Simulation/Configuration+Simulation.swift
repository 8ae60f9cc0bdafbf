public import Operations

extension OperationSupervisor.Configuration {
    /// Creates the configuration of a supervisor whose operations run, block and sleep in a simulation.
    ///
    /// Its seed also decides how long retries wait.
    ///
    /// - Parameters:
    ///   - simulation: The simulation.
    ///   - width: How many operations run at once.
    ///   - isSuspended: Whether the supervisor starts no operations until it is resumed.
    public init(simulation: Simulation, width: Int = 4, isSuspended: Bool = false) {
        self.init(
            width: width,
            isSuspended: isSuspended,
            clock: simulation.clock,
            random: simulation.randomFraction,
            executor: simulation.executor,
            blockingExecutor: simulation.executor
        )
    }
}
