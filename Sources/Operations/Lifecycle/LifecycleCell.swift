import Synchronization

/// The lifecycle of one operation, as it is now.
///
/// Every event of an operation is decided under the scheduler's lock, with one exception: when `main` of an *undisturbed*
/// operation returns, the run itself sets the outcome. Nothing else remains to be decided then. Each change is atomic,
/// so the lock's holder sees the operation either before this step or after it. What the holder does to an operation
/// before this step (cancelling it, adding extras) makes the step fail, and the end of `main` is decided under the lock.
struct LifecycleCell: ~Copyable, Sendable {
    private let lifecycle = Atomic(OperationLifecycle())

    var value: OperationLifecycle { lifecycle.load(ordering: .acquiring) }

    /// Changes the lifecycle; the caller holds the scheduler's lock.
    ///
    /// - Parameter change: The change, which is made again if `main` has just returned.
    /// - Returns: What the change returns.
    func update<Result>(_ change: (inout OperationLifecycle) -> Result) -> Result {
        var former = value
        while true {
            var next = former
            let result = change(&next)
            let (isExchanged, current) = lifecycle.weakCompareExchange(
                expected: former,
                desired: next,
                successOrdering: .acquiringAndReleasing,
                failureOrdering: .acquiring
            )
            if isExchanged { return result }
            former = current
        }
    }

    /// Sets the outcome of an operation whose `main` has returned, without the lock.
    ///
    /// Returns `false` if more has to be decided than the outcome. Only the task that runs the operation may call this.
    func finishIfUndisturbed() -> Bool {
        let former = value
        guard former.isUndisturbed else { return false }
        var next = former
        next.beginEnding(.finished)
        return lifecycle.compareExchange(expected: former, desired: next, ordering: .acquiringAndReleasing).exchanged
    }
}
