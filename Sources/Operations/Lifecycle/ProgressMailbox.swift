/// Carries progress from `main`, which reports at any rate and never waits, to the progress phase, which may be slow.
///
/// It holds only the latest value. One task, the pump, empties it: the first report starts the pump, and the operation's
/// end waits for it. So no progress phase can overlap or follow the ending.
struct ProgressMailbox: Sendable {
    private(set) var current = OperationProgress.none
    private var isUndelivered = false
    private var isPumping = false
    private var isClosed = false

    enum ReportDecision { case nothing, startPump, drop }

    /// Stores a report.
    ///
    /// A report that comes after the end, from a task that outlived `main`, is dropped.
    mutating func report(_ progress: OperationProgress) -> ReportDecision {
        guard !isClosed else { return .drop }
        current = progress.following(current)
        isUndelivered = true
        guard !isPumping else { return .nothing }
        isPumping = true
        return .startPump
    }

    /// Returns the next value for the pump; `nil` ends the pump.
    mutating func take() -> OperationProgress? {
        guard isUndelivered else {
            isPumping = false
            return nil
        }
        isUndelivered = false
        return current
    }

    /// Accepts no more reports, because `main` is over.
    mutating func close() {
        isClosed = true
    }

    /// Accepts and delivers nothing more, because the operation has ended.
    mutating func discard() {
        isClosed = true
        isUndelivered = false
    }

    /// Sets the progress of a closed mailbox to complete, because the operation finished.
    mutating func complete() {
        current.fractionCompleted = 1
        current.completedUnitCount = current.totalUnitCount ?? current.completedUnitCount
    }
}
