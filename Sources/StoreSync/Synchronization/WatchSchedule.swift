import ThreadSupport

/// Decides when a watch synchronizes: a state machine without clock, files and remote.
///
/// All times are since one moment.
struct WatchSchedule: Sendable {
    /// Where something changes.
    enum Source: Sendable, Hashable {
        case store, remote
    }

    /// The times of the first and the last of several changes.
    struct Changes: Sendable, Hashable {
        var first: Duration
        var last: Duration
    }

    /// What is to be done.
    enum Step: Sendable, Hashable {
        /// Read the listing of the remote, then call ``looked(isNews:at:random:)``.
        case look
        /// Synchronize, then call ``synchronized(isActive:isComplete:at:random:)``.
        case synchronize
        /// Wait; a change ends the wait, unless the wait is for the end of changes.
        case wait(until: Duration, isInterruptible: Bool)
    }

    private struct Failure {
        var count: Int
        var sources: Set<Source>
        /// Before this time not even a change leads to a retry.
        var earliest: Duration
        var retry: Duration
    }

    private let policy: WatchPolicy
    /// The sources that signal their changes.
    private var watched: Set<Source>
    private var changes: [Source: Changes] = [:]
    private var isDue = false
    private var failure: Failure?
    /// How often nothing was new since the last activity.
    private var quietLooks = 0
    /// How often edits of other devices have waited for files that are still arriving.
    private var incompleteCount = 0
    private var nextLook: Duration
    private var nextSynchronization: Duration

    /// Begins with a listing.
    init(_ policy: WatchPolicy, watched: Set<Source>, at now: Duration) {
        (self.policy, self.watched) = (policy, watched)
        nextLook = now
        nextSynchronization = now + policy.longestPause
    }

    /// A source signals its changes from now on.
    mutating func beganWatching(_ source: Source) { watched.insert(source) }

    /// What is to be done now.
    func step(at now: Duration) -> Step {
        if isDue { return .synchronize }
        if let failure {
            return failure.retry <= now ? .synchronize : .wait(until: failure.retry, isInterruptible: true)
        }
        let synchronization = min(nextSynchronization, due(.store) ?? nextSynchronization)
        let look = min(nextLook, due(.remote) ?? nextLook)
        if synchronization <= now { return .synchronize }
        if look <= now { return .look }
        return .wait(until: min(synchronization, look), isInterruptible: changes.isEmpty)
    }

    /// When changes are complete, or have waited long enough.
    private func due(_ source: Source) -> Duration? {
        changes[source].map { min($0.last + policy.quietTime, $0.first + policy.maximumDelay) }
    }

    /// Something has changed.
    mutating func noticed(_ new: Changes, of source: Source) {
        guard let failure else {
            changes[source] = Changes(first: changes[source]?.first ?? new.first, last: new.last)
            return
        }
        // The retry will find the change. What has failed may work again after a change there: the store is released, the
        // folder is back.
        guard failure.sources.contains(source) else { return }
        self.failure?.retry = min(failure.retry, max(new.last + policy.quietTime, failure.earliest))
    }

    /// The listing was read.
    mutating func looked(isNews: Bool, at now: Duration, random: Double) {
        changes[.remote] = nil
        quietLooks = isNews ? 0 : quietLooks + 1
        isDue = isDue || isNews
        nextLook = now + lookDelay(random)
    }

    /// A synchronization begins: it finds everything that has changed until now.
    mutating func began() {
        changes = [:]
        isDue = false
    }

    /// A synchronization has succeeded.
    ///
    /// - Parameters:
    ///   - isActive: Whether it changed the store or the remote.
    ///   - isComplete: Whether no edits of other devices wait.
    ///   - now: The time.
    ///   - random: A number from 0 up to 1.
    mutating func synchronized(isActive: Bool, isComplete: Bool, at now: Duration, random: Double) {
        failure = nil
        if isActive { (quietLooks, incompleteCount) = (0, 0) }
        incompleteCount = isComplete ? 0 : incompleteCount + 1
        nextLook = now + lookDelay(random)
        nextSynchronization = now + policy.longestPause
        if incompleteCount > 0 {
            nextSynchronization = min(nextSynchronization, now + retryDelay(incompleteCount, random))
        }
        if !watched.contains(.store) {
            // The store's changes are found by synchronizing only.
            nextSynchronization = min(nextSynchronization, now + pollDelay(random))
            quietLooks += 1
        }
    }

    /// A listing or a synchronization has failed, and may succeed later.
    ///
    /// - Parameters:
    ///   - sources: What may have failed.
    ///   - now: The time.
    ///   - random: A number from 0 up to 1.
    /// - Returns: The wait before the retry.
    mutating func failed(_ sources: Set<Source>, at now: Duration, random: Double) -> Duration {
        began()
        let count = (failure?.count ?? 0) + 1
        let delay = retryDelay(count, random)
        failure = Failure(count: count, sources: sources, earliest: now + policy.shortestRetry, retry: now + delay)
        return delay
    }

    private func lookDelay(_ random: Double) -> Duration {
        watched.contains(.remote) ? policy.longestPoll * jittered(random) : pollDelay(random)
    }

    private func pollDelay(_ random: Double) -> Duration {
        ExponentialBackoff(initialDelay: policy.shortestPoll, maximumDelay: policy.longestPoll)
            .delay(after: quietLooks + 1) * jittered(random)
    }

    private func retryDelay(_ count: Int, _ random: Double) -> Duration {
        ExponentialBackoff(initialDelay: policy.shortestRetry, maximumDelay: policy.longestRetry).delay(after: count)
            * jittered(random)
    }

    private func jittered(_ random: Double) -> Double { 1 - min(max(0, policy.jitter), 1) * random }
}
