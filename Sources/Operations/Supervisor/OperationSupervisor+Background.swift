extension OperationSupervisor {
    /// The app goes to the background: starts nothing more but operations that may continue there.
    ///
    /// An assertion is held while operations run that had started before, or while ones are left that may continue, also
    /// those that are added meanwhile. It is released when the last of them has ended; none is taken where there is none.
    /// What hasn't ended is cancelled when the grace or the assertion expires, whichever is first.
    ///
    /// Operations that may continue and are added after the release start without an assertion and without a grace: the
    /// app is awake for a reason of its own then. ``enterForeground()`` lets everything go on.
    ///
    /// - Parameters:
    ///   - grace: How long work may go on at most, by the supervisor's clock.
    ///   - provider: Where to take the assertion; none is taken where this is `nil`.
    public func enterBackground(grace: Duration, provider: (any BackgroundActivityProvider)? = nil) async {
        let stay = BackgroundStay(core, provider)
        let hasWork = core.decide { board, actions in
            let hasWork = board.enterBackground(stay)
            board.grantAll(&actions)
            return hasWork
        }
        if hasWork { await stay.begin(grace: grace) }
    }

    /// The app is back: everything may start again, and the assertion is released if it is still held.
    public func enterForeground() async {
        let stay = core.decide { board, actions in
            board.scheduler.isInBackground = false
            let work = board.backgroundWork.take()
            board.grantAll(&actions)
            return work?.stay
        }
        await stay?.end()
    }
}
