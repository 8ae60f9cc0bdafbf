/// The progress of all operations of a supervisor together.
///
/// It starts over when the supervisor has drained.
public struct SupervisorProgress: Sendable, Hashable {
    /// The units of the operations added since the supervisor was last empty: one each, unless
    /// ``OperationOptions/progressUnitCount`` says otherwise.
    public var totalUnitCount: Int64
    /// The units of the operations among them that have ended, with any outcome.
    public var completedUnitCount: Int64
    /// The part that is done, from 0 to 1; operations that run, ending phase included, count by their own progress.
    ///
    /// It never falls until the supervisor has drained, although operations may be added meanwhile.
    public var fractionCompleted: Double
}

extension OperationSupervisor {
    /// The progress of all operations that were added since the supervisor was last empty.
    public nonisolated var progress: SupervisorProgress {
        core.withBoard { $0.progress() }
    }
}

extension SchedulerBoard {
    mutating func progress() -> SupervisorProgress {
        let running = records.lazy.compactMap { $0 }.filter(\.lifecycle.runs)
        let partial = running.reduce(0) { sum, record in
            sum + progress(of: record).fractionCompleted * Double(record.progressUnitCount)
        }
        let now = tally.total == 0 ? 0 : min(1, (Double(tally.completed) + partial) / Double(tally.total))
        tally.fraction = max(tally.fraction, now)
        return SupervisorProgress(
            totalUnitCount: tally.total,
            completedUnitCount: tally.completed,
            fractionCompleted: tally.fraction
        )
    }
}
