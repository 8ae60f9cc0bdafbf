extension OperationRecord {
    /// Starts the timer of the operation's deadline, if it has one.
    func startDeadline() {
        guard let deadline = core.withBoard({ _ in extras?.options.deadline }) else { return }
        startTimer { [core] record in
            guard (try? await core.environment.sleep(for: deadline)) != nil else { return }
            let name = core.withBoard { _ in record.name }
            let error = OperationError(
                .deadlineExceeded,
                "\(name) exceeded its deadline of \(deadline). Give it more time, or find out what delays it."
            )
            core.cancel(record, because: error)
        }
    }

    /// Starts to watch for progress when the run starts, if there is a stall timeout.
    ///
    /// - Parameter timeout: The timeout in the operation's options.
    func startWatchdog(_ timeout: Duration?) {
        let environment = core.environment
        guard let timeout = timeout ?? environment.configuration.stallTimeout, timeout > .zero else { return }
        startTimer { [core] record in
            var former = -1
            while (try? await environment.sleep(for: timeout)) != nil {
                let (reports, isPaused, mayRunMain) = core.withBoard { board in
                    (record.extras?.reportCount ?? 0, board.state(of: record) == .paused, record.lifecycle.mayRunMain)
                }
                guard mayRunMain else { return }
                // Reports and pauses show that the operation is alive. The first interval after the start or a pause
                // doesn't count, because a pause may have covered a part of it.
                if reports == former, !isPaused { record.stall(for: timeout) }
                former = isPaused ? -1 : reports
            }
        }
    }

    private func stall(for timeout: Duration) {
        let error = core.withBoard { board in
            let error = OperationError(
                .stalled,
                "\(name) has made no progress for \(timeout). See what it waits for, or let it report progress more often."
            )
            if let extras { board.tell(extras.listeners, .stalled) }
            board.noteStall(of: self, for: timeout)
            return error
        }
        if core.environment.configuration.stallPolicy == .cancel { core.cancel(self, because: error) }
    }

    private func startTimer(_ body: @escaping @Sendable (OperationRecord) async -> Void) {
        let task = Task.detached(executorPreference: core.environment.configuration.executor) { [weak self] in
            guard let self else { return }
            await body(self)
        }
        let isKept = core.withBoard { _ in
            guard !hasEnded else { return false }
            madeExtras.timers.append(task)
            return true
        }
        if !isKept { task.cancel() }
    }
}
