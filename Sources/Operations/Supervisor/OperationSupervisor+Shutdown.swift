extension OperationSupervisor {
    /// Refuses new operations, cancels all others, and waits for them to end, in bounded time.
    ///
    /// Swift can't stop a task by force. An operation that hasn't ended after the grace period is *abandoned*: its handle
    /// ends as failed, with an ``OperationError`` of the code `abandoned`. Its phases aren't called any more and its result
    /// is dropped. Its exclusion keys and its temporary directory stay until its `main` returns.
    ///
    /// The first call decides the grace period. Further calls wait for the same shutdown. Don't await it in one of its own
    /// operations.
    ///
    /// - Parameter grace: How long to wait, by the supervisor's clock.
    /// - Returns: The operations that were abandoned, the oldest first.
    @discardableResult
    public func shutdown(grace: Duration) async -> [any OperationReference] {
        if let shutdownTask { return await shutdownTask.value }
        let core = core
        let task = Task.detached(executorPreference: core.environment.configuration.executor) {
            await core.shutDown(grace: grace)
        }
        shutdownTask = task
        return await task.value
    }
}

extension SchedulerCore {
    fileprivate func shutDown(grace: Duration) async -> [OperationDependency] {
        let ticket = makeTicket()
        withBoard { board in
            board.isShutDown = true
            board.admitWaiters()
        }
        cancel(records)
        var timer: Task<Void, Never>?
        _ = try? await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let isEmpty = withBoard { board in
                guard board.scheduler.count > 0 else { return true }
                board.drainWaiters[ticket] = continuation
                return false
            }
            guard !isEmpty else { return continuation.resume() }
            // Not earlier: the end of a short grace period would find no continuation, and nothing would end the wait.
            timer = Task.detached(executorPreference: environment.configuration.executor) { [self] in
                try? await environment.sleep(for: grace)
                withBoard { $0.drainWaiters.removeValue(forKey: ticket) }?.resume()
            }
        }
        timer?.cancel()
        let records = records
        // A handle that joined an operation ends with it, and then no longer knows it.
        let targets = withBoard { _ in records.map { $0.extras?.target?.id } }
        var ids: Set<OperationID> = []
        var abandoned: [OperationRecord] = []
        for (record, target) in zip(records, targets)
        where withBoard({ $0.abandon(record) }) || target.map(ids.contains) == true {
            ids.insert(record.id)
            abandoned.append(record)
        }
        return abandoned.map { OperationDependency(record: $0) }
    }
}
