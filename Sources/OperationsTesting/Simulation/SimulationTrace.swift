/// The choices a simulation made: which of the jobs that could run did.
///
/// The same scenario and the same seed give the same trace, also in another process: if they don't, something in the
/// scenario depends on more than the seed (real time, the order of a `Set`, another thread).
public struct SimulationTrace: Sendable, Hashable, CustomStringConvertible {
    /// Where a job was meant to run.
    public enum Lane: UInt8, Sendable, Hashable {
        /// On the simulation's executor, which its task prefers.
        case task
        /// On Swift's own pool: `Task {}`, detached tasks, the end of `Task.sleep`.
        case adopted
        /// On the executor of one actor.
        case serial
        /// On the main actor.
        case main
    }

    /// One choice.
    public struct Choice: Sendable, Hashable {
        /// How many jobs could have run.
        public var candidates: UInt32
        /// Which of them did, in the order in which they came to be candidates.
        public var index: UInt32
        /// Where it was meant to run.
        public var lane: Lane
    }

    /// The choices, in order.
    public private(set) var choices: [Choice] = []
    /// A number that two traces share only if they are the same, as good as certainly; the same in every process.
    public private(set) var fingerprint: UInt64 = 0xCBF2_9CE4_8422_2325

    /// How many jobs ran.
    public var count: Int { choices.count }

    /// The fingerprint and the number of steps.
    public var description: String { "\(String(fingerprint, radix: 16)) (\(count) steps)" }

    mutating func record(_ index: Int, of candidates: Int, _ lane: Lane) {
        choices.append(Choice(candidates: UInt32(candidates), index: UInt32(index), lane: lane))
        fingerprint.mix(UInt64(candidates) << 32 | UInt64(index) << 8 | UInt64(lane.rawValue))
    }
}

extension UInt64 {
    /// Makes the number depend on `value` too, and on what was mixed in before, in this order.
    mutating func mix(_ value: UInt64) {
        var generator = SplitMix64(seed: self ^ value)
        self = generator.next()
    }
}

/// A job that came into a simulation from another thread, or from an executor that isn't simulated.
///
/// When it comes isn't the seed's choice, so the run can't be replayed from here on. Inject the simulation's executor and
/// clock where the work left.
public struct SimulationEscape: Sendable, Hashable, CustomStringConvertible {
    /// How many jobs had run when it came.
    public var step: Int

    /// Says when it came.
    public var description: String { "work that had left the simulation came back at step \(step)" }
}
