/// Carries progress from `main`, which reports at any rate and never waits, to the progress phase, which takes its time.
///
/// It holds the latest value only. One pump empties it; it starts with the first report and the end waits for it, so no
/// progress phase can overlap or follow the ending.
struct ProgressMailbox: Sendable {
    private(set) var current = OperationProgress.none
    private var isUndelivered = false
    private var isPumping = false
    private var isClosed = false

    enum ReportDecision: Hashable { case nothing, startPump, drop }

    /// `main` reports.
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

    /// The pump asks for more; `nil` ends it.
    mutating func take() -> OperationProgress? {
        guard isUndelivered else {
            isPumping = false
            return nil
        }
        isUndelivered = false
        return current
    }

    /// `main` is over: nothing more is accepted.
    mutating func close() {
        isClosed = true
    }

    /// The operation has ended: nothing is delivered any more.
    mutating func discard() {
        isClosed = true
        isUndelivered = false
    }

    /// The operation finished: all is done.
    mutating func complete() {
        isClosed = true
        current.fractionCompleted = 1
        current.completedUnitCount = current.totalUnitCount ?? current.completedUnitCount
    }
}
