/// The choices of a simulation (at each step, which of the jobs that could run did) as a number of steps and a hash.
///
/// The same scenario and the same seed give the same trace, also in another process. If they don't, something in the
/// scenario depends on more than the seed (real time, the order of a `Set`, another thread).
public struct SimulationTrace: Sendable, Hashable, CustomStringConvertible {
    /// Where a job was meant to run.
    enum Lane: UInt8 {
        /// On the simulation's executor, which its task prefers.
        case task
        /// On Swift's own pool: `Task {}`, detached tasks, the end of `Task.sleep`.
        case adopted
        /// On the executor of one actor.
        case serial
        /// On the main actor.
        case main
    }

    /// How many jobs ran.
    public private(set) var count = 0
    /// A hash of the choices, which is the same in every process; different traces almost certainly differ in it.
    public private(set) var fingerprint: UInt64 = 0xCBF2_9CE4_8422_2325

    /// The fingerprint and the number of steps.
    public var description: String { "\(String(fingerprint, radix: 16)) (\(count) steps)" }

    mutating func record(_ index: Int, of candidates: Int, _ lane: Lane) {
        count += 1
        fingerprint.mix(UInt64(candidates) << 32 | UInt64(index) << 8 | UInt64(lane.rawValue))
    }
}

extension UInt64 {
    /// Mixes `value` into the number; the result depends on the order of all mixed values.
    mutating func mix(_ value: UInt64) {
        var generator = SplitMix64(seed: self ^ value)
        self = generator.next()
    }
}

/// A job that came into a simulation from another thread, or from an executor that isn't simulated.
///
/// The seed doesn't decide when the job comes, so the run can't be replayed from here on. Inject the simulation's executor
/// and clock where the work left.
public struct SimulationEscape: Sendable, Hashable, CustomStringConvertible {
    /// How many jobs had run when it came.
    public var step: Int

    /// The step at which the work came back, in words.
    public var description: String { "work that had left the simulation came back at step \(step)" }
}
