import Operations

/// The rate of a transfer, measured from the first report of its phase that counts bytes.
///
/// Questions to the user and the reading of a store come before that report, so their time doesn't count.
struct TransferRate {
    private var start: (phase: String?, bytes: Int64, time: ContinuousClock.Instant)?

    /// Returns the bytes per second up to a report; `nil` if they aren't known yet.
    mutating func bytesPerSecond(_ progress: OperationProgress, at time: ContinuousClock.Instant) -> Double? {
        guard let done = progress.completedUnitCount, progress.totalUnitCount ?? 0 > 0 else {
            start = nil
            return nil
        }
        guard let start, start.phase == progress.phase else {
            start = (progress.phase, done, time)
            return nil
        }
        let seconds = (time - start.time) / .seconds(1)
        guard seconds > 0.5, done > start.bytes else { return nil }
        return Double(done - start.bytes) / seconds
    }
}
