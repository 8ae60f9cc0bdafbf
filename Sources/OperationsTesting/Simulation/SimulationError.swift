import ThreadSupport

/// Why a simulation failed, and how to see it again.
public struct SimulationError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Value: String {
            case deadlock, waitingOutside, tooManySteps, scenarioFailed, promiseBroken
        }

        private let value: Value

        /// Nothing can run, nothing is due, and everybody waits for something of the simulation.
        ///
        /// ``SimulationError/waits`` names what.
        public static let deadlock = Code(value: .deadlock)
        /// Nothing can run, nothing is due, and somebody waits for something that isn't known to come from within.
        ///
        /// It may be work that left the simulation for a thread of its own, or a continuation that nobody resumes.
        public static let waitingOutside = Code(value: .waitingOutside)
        /// More jobs ran than ``Simulation/Limits/steps`` allows: the scenario may never end.
        public static let tooManySteps = Code(value: .tooManySteps)
        /// The scenario threw; ``SimulationError/cause`` is what.
        public static let scenarioFailed = Code(value: .scenarioFailed)
        /// An operation doesn't keep what every operation promises; see ``OperationConformance``.
        public static let promiseBroken = Code(value: .promiseBroken)

        /// The code's name.
        public var description: String { value.rawValue }
    }

    /// What kind of failure it is.
    public var code: Code
    /// What happened, in a sentence.
    public var message: String
    /// The seed with which it happens again.
    public var seed: UInt64
    /// The choices that were made until then; their number is the step at which it happened.
    public var trace: SimulationTrace
    /// Who waits for what, as far as that is known.
    public var waits: [String]
    /// When work came back that had left the simulation: what happened after that, the seed alone doesn't decide.
    public var escapes: [SimulationEscape]
    /// What the scenario threw, if it did.
    public var cause: (any Error)?
    /// A command that runs the same again.
    public var replay: String?

    /// How many jobs had run.
    public var step: Int { trace.count }

    /// What happened, who waits, and how to see it again.
    public var description: String {
        var lines = ["\(code) with seed \(seed), after step \(step): \(message)"]
        lines += waits.map { "  \($0)" }
        lines += escapes.prefix(3).map { "  \($0): the seed alone may not show this again" }
        lines += SimulationCapabilities.current.limitations.map { "  \($0)" }
        if let replay { lines.append("  again: \(replay)") }
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

    /// Nothing can run, nothing is due, and the scenario hasn't ended.
    static func stuck(_ simulation: Simulation) -> Self {
        let outside = simulation.executor.waits.partiesWithoutWaits
        guard !outside.isEmpty else { return Self(.deadlock, "everybody waits and nobody can go on", simulation) }
        return Self(
            .waitingOutside,
            """
            nothing can run, and \(outside.joined(separator: ", ")) waits for something that isn't simulated: a thread, a \
            real timer, or a continuation that nobody resumes
            """,
            simulation
        )
    }

    static func tooManySteps(_ simulation: Simulation) -> Self {
        Self(.tooManySteps, "the scenario still hadn't ended", simulation)
    }

    /// The command that runs a test again with one seed.
    static func replayCommand(seed: UInt64, _ fileID: String, _ function: String) -> String {
        let module = fileID.prefix { $0 != "/" }
        let name = function.prefix { $0 != "(" }
        return
            "SWIFT_DETERMINISTIC_HASHING=1 \(Simulation.seedVariable)=\(seed) swift test --filter '\(module).*\(name)'"
    }
}
