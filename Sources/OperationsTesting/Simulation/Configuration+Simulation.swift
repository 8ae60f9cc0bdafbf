public import Operations

extension OperationSupervisor.Configuration {
    /// A supervisor that lives in a simulation: its operations run, block and sleep there.
    ///
    /// - Parameters:
    ///   - simulation: The simulation.
    ///   - width: How many operations run at once.
    ///   - isSuspended: Whether the supervisor holds operations back until it is told to go on.
    public init(simulation: Simulation, width: Int = 4, isSuspended: Bool = false) {
        self.init(
            width: width,
            isSuspended: isSuspended,
            clock: simulation.clock,
            executor: simulation.executor,
            blockingExecutor: simulation.executor
        )
    }
}
