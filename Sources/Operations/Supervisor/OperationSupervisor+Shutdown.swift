extension OperationSupervisor {
    /// Ends everything, in bounded time: takes nothing more, cancels what there is, and waits for what runs to notice.
    ///
    /// Swift can't stop a task that doesn't want to. An operation that hasn't ended after the grace is *abandoned*: its
    /// handle ends as failed, with an ``OperationError`` of the code `abandoned`, its phases aren't called any more and its
    /// result is dropped; its exclusion keys and its temporary directory stay until its `main` really returns.
    ///
    /// The first call decides; others wait for the same end.
    ///
    /// - Parameter grace: How long to wait, by the supervisor's clock.
    /// - Returns: The operations that were abandoned, the oldest first.
    @discardableResult
    public func shutdown(grace: Duration) async -> [any OperationReference] {
        if let shutdownTask { return await shutdownTask.value }
        let core = core
        let task = Task.detached(executorPreference: core.environment.executor) {
            await core.shutDown(grace: grace)
        }
        shutdownTask = task
        return await task.value
    }
}

extension SchedulerCore {
    fileprivate func shutDown(grace: Duration) async -> [OperationDependency] {
        let ticket = makeTicket()
        decide { board, actions in
            board.shutDown()
            board.admitWaiters(&actions)
        }
        cancelAll()
        let clock = environment.clock
        let timer = Task.detached(executorPreference: environment.executor) { [self] in
            try? await clock.sleep(for: grace)
            // Whoever waits for the drain stops waiting.
            let waiter = withBoard { $0.drainWaiters.removeValue(forKey: ticket) }
            waiter?.resume()
        }
        _ = try? await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let isEmpty = withBoard { board in
                guard board.scheduler.count > 0 else { return true }
                board.drainWaiters[ticket] = continuation
                return false
            }
            if isEmpty { continuation.resume() }
        }
        timer.cancel()
        let abandoned = records.filter { !$0.hasEnded }
        for record in abandoned { decide { $0.abandon(record, &$1) } }
        return abandoned.map { OperationDependency(record: $0, policy: .mustSucceed) }
    }
}
