/// The assertion that keeps the app running in the background, while there is one.
struct BackgroundActivity {
    var provider: (any BackgroundActivityProvider)?
    var identifier: Int?
    var graceTask: Task<Void, Never>?
    /// Counts the stays in the background, so that what belongs to a former one is recognised.
    var stay = 0
}

extension OperationSupervisor {
    /// The app goes to the background: starts nothing more but operations that may continue there.
    ///
    /// While work that may continue is left, an assertion is held. What still runs is cancelled when the grace or the
    /// assertion expires, whichever is first; ``enterForeground()`` lets everything go on.
    ///
    /// - Parameters:
    ///   - grace: How long work may go on at most, by the supervisor's clock.
    ///   - provider: Where to take the assertion; none is taken where this is `nil`.
    public func enterBackground(grace: Duration, provider: (any BackgroundActivityProvider)? = nil) async {
        guard !isInBackground else { return }
        core.configure { $0.scheduler.isInBackground = true }
        background.stay += 1
        let stay = background.stay
        guard core.records.contains(where: { $0.mayContinueInBackground || $0.state.isUnderway }) else {
            return
        }
        let clock = core.environment.clock
        background.graceTask = Task.detached(executorPreference: core.environment.executor) { [weak self] in
            // The task is cancelled as soon as the stay ends, which wakes it from its sleep.
            guard (try? await clock.sleep(for: grace)) != nil else { return }
            await self?.backgroundExpired(stay)
        }
        guard let provider else { return }
        background.provider = provider
        let executor = core.environment.executor
        let expire: @Sendable () -> Void = { [weak self] in
            Task.detached(executorPreference: executor) { await self?.backgroundExpired(stay) }
        }
        let identifier = await provider.beginActivity(expired: expire)
        // The app may have come back while the assertion was being taken.
        if background.stay == stay, isInBackground {
            background.identifier = identifier
        } else if let identifier {
            await provider.endActivity(identifier)
        }
    }

    /// The app is back: everything may start again, and the assertion is given back.
    public func enterForeground() async {
        core.configure { $0.scheduler.isInBackground = false }
        await endBackgroundActivity()
    }

    private func backgroundExpired(_ stay: Int) async {
        guard background.stay == stay, isInBackground else { return }
        // The newest first, as in `cancelAll`.
        for record in core.records.reversed() where record.state.isUnderway || record.mayContinueInBackground {
            record.cancel()
        }
        await endBackgroundActivity()
    }

    private func endBackgroundActivity() async {
        background.graceTask?.cancel()
        background.graceTask = nil
        guard let identifier = background.identifier.take() else { return }
        await background.provider?.endActivity(identifier)
    }
}

extension OperationSupervisor {
    private var isInBackground: Bool { core.withBoard { $0.scheduler.isInBackground } }
}

extension OperationRecord {
    fileprivate var mayContinueInBackground: Bool { core.withBoard { _ in options.mayContinueInBackground } }
}

extension OperationState {
    fileprivate var isUnderway: Bool { self == .executing || self == .paused }
}
