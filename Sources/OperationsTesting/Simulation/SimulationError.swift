import ThreadSupport

/// Why a simulation failed, and how to replay the failure.
public struct SimulationError: Error, Sendable, CustomStringConvertible {
    /// The kind of a failure.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        /// The code's name.
        public let description: String

        private init(_ description: String) { self.description = description }

        /// Nothing can run, no timer is pending, and the scenario and all operations wait within the simulation.
        ///
        /// ``SimulationError/waits`` names the waits.
        public static let deadlock = Code("deadlock")
        /// Nothing can run, no timer is pending, and the scenario or an operation waits for something unknown.
        ///
        /// It may be work that left the simulation for another thread, or a continuation that is never resumed.
        public static let waitingOutside = Code("waitingOutside")
        /// More jobs ran than ``Simulation/Limits/steps`` allows: the scenario may never end.
        public static let tooManySteps = Code("tooManySteps")
        /// The scenario threw the error in ``SimulationError/cause``.
        public static let scenarioFailed = Code("scenarioFailed")
        /// An operation breaks a promise that every operation has to keep; see ``OperationConformance``.
        public static let promiseBroken = Code("promiseBroken")
    }

    /// The kind of the failure.
    public var code: Code
    /// What happened, in a sentence.
    public var message: String
    /// The seed that reproduces the failure.
    public var seed: UInt64
    /// The choices that were made until the failure; their number is the step at which it happened.
    public var trace: SimulationTrace
    /// Who waits for what, as far as that is known.
    public var waits: [String]
    /// When work came back that had left the simulation; after that, the order doesn't depend on the seed alone.
    public var escapes: [SimulationEscape]
    /// The error that the scenario threw, if it did.
    public var cause: (any Error)?
    /// A command that replays the failure.
    public var replay: String?

    /// How many jobs had run.
    public var step: Int { trace.count }

    /// What happened, who waits, and how to replay it.
    public var description: String {
        var lines = ["\(code) with seed \(seed), after step \(step): \(message)"]
        lines += waits.map { "  \($0)" }
        lines += escapes.prefix(3).map { "  \($0): the seed alone may not reproduce this" }
        lines += SimulationCapabilities.current.limitations.map { "  \($0)" }
        if let replay { lines.append("  replay: \(replay)") }
        return lines.joined(separator: "\n")
    }
}

extension SimulationError {
    init(_ code: Code, _ message: String, _ simulation: Simulation, cause: (any Error)? = nil) {
        self.init(
            code: code,
            message: message,
            seed: simulation.seed,
            trace: simulation.executor.trace,
            waits: simulation.executor.waits.waits.map { "\($0.party) waits for \($0.reason)" },
            escapes: simulation.executor.escapes,
            cause: cause
        )
    }

    /// The error of a run in which nothing can run, no timer is pending, and the scenario hasn't ended.
    static func stuck(_ simulation: Simulation) -> Self {
        let outside = simulation.executor.waits.partiesWithoutWaits
        guard !outside.isEmpty else { return Self(.deadlock, "nothing can run, and no wait can end", simulation) }
        return Self(
            .waitingOutside,
            """
            nothing can run, and \(outside.joined(separator: ", ")) waits for something that isn't simulated: a thread, a \
            real timer, or a continuation that is never resumed
            """,
            simulation
        )
    }

    static func tooManySteps(_ simulation: Simulation) -> Self {
        Self(.tooManySteps, "the scenario hadn't ended by then", simulation)
    }

    /// Returns the command that repeats a test with one seed.
    static func replayCommand(seed: UInt64, _ fileID: String, _ function: String) -> String {
        let module = fileID.prefix { $0 != "/" }
        let name = function.prefix { $0 != "(" }
        return
            "SWIFT_DETERMINISTIC_HASHING=1 \(Simulation.seedVariable)=\(seed) swift test --filter '\(module).*\(name)'"
    }
}
