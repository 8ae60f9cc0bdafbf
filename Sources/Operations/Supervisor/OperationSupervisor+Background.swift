extension OperationSupervisor {
    /// Tells the supervisor that the app enters the background, where only operations that may continue there start.
    ///
    /// The supervisor holds an assertion while operations run that started before, and while it has operations that may
    /// continue, including ones that are added meanwhile. It releases the assertion when the last of them has ended. It
    /// takes no assertion if there are no such operations. When the grace period or the assertion expires, whichever is
    /// first, the supervisor cancels the operations that haven't ended.
    ///
    /// Operations that may continue and are added after the release start without an assertion and without a grace period:
    /// the app is awake for another reason then. ``enterForeground()`` lets all operations start again.
    ///
    /// - Parameters:
    ///   - grace: The maximum time that work may continue, by the supervisor's clock.
    ///   - provider: Where to take the assertion; none is taken where this is `nil`.
    public func enterBackground(grace: Duration, provider: (any BackgroundActivityProvider)? = nil) async {
        let stay = BackgroundStay(core, provider)
        let hasWork = core.withBoard { board in
            let hasWork = board.enterBackground(stay)
            board.grantAll()
            return hasWork
        }
        if hasWork { await stay.begin(grace: grace) }
    }

    /// Tells the supervisor that the app is in the foreground again, where all operations may start.
    ///
    /// The assertion is released if the supervisor still holds it.
    public func enterForeground() async {
        let stay = core.withBoard { board in
            board.scheduler.isInBackground = false
            let work = board.backgroundWork.take()
            board.grantAll()
            return work?.stay
        }
        await stay?.end()
    }
}
