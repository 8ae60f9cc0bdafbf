import Logging

// MARK: - A task of its own

extension OperationRecord {
    /// Makes the task that inherits the task-local values of whoever adds the operation, where that is wanted.
    func makeOwnTask() {
        guard core.withBoard({ _ in extras?.options.inheritsTaskLocals }) == true else { return }
        let task = OwnTask(self)
        core.withBoard { _ in extras?.ownTask = task }
    }

    /// The operation isn't taken: its task, if it has one, ends without having run it.
    func dropOwnTask() { core.withBoard { _ in extras?.ownTask.take() }?.drop() }
}

// MARK: - Time

extension OperationRecord {
    /// Begins to count the time that the operation may take.
    func startDeadline() {
        guard let deadline = core.withBoard({ _ in extras?.options.deadline }) else { return }
        startTimer { [core] record in
            guard (try? await core.environment.clock.sleep(for: deadline)) != nil else { return }
            let name = core.withBoard { _ in record.name }
            let error = OperationError(
                .deadlineExceeded,
                "\(name) took longer than \(deadline), which is all that it was given. Give it more time, or find out what holds it up."
            )
            core.cancel(record, because: error)
        }
    }

    /// Begins to watch for progress, where that is wanted, when the run begins.
    ///
    /// - Parameter timeout: What the operation was added with.
    func startWatchdog(_ timeout: Duration?) {
        let environment = core.environment
        guard let timeout = timeout ?? environment.stallTimeout else { return }
        startTimer { [core] record in
            var former = -1
            while (try? await environment.clock.sleep(for: timeout)) != nil {
                let (reports, isPaused) = core.withBoard { board in
                    (record.extras?.reportCount ?? 0, board.state(of: record) == .paused)
                }
                // Reports and pauses are life; so is the first stretch, which may have begun in the middle of one.
                if reports == former, !isPaused { record.stall(for: timeout) }
                former = isPaused ? -1 : reports
            }
        }
    }

    private func stall(for timeout: Duration) {
        let error = core.decide { board, actions in
            let error = OperationError(
                .stalled,
                "\(name) has made no progress for \(timeout). See what it waits for, or let it report progress more often."
            )
            if let extras, !extras.listeners.isEmpty { actions.append(.tell(extras.listeners, .stalled)) }
            board.noteStall(of: self, for: timeout, &actions)
            return error
        }
        if core.environment.stallPolicy == .cancel { core.cancel(self, because: error) }
    }

    private func startTimer(_ body: @escaping @Sendable (OperationRecord) async -> Void) {
        let task = Task.detached(executorPreference: core.environment.executor) { [weak self] in
            guard let self else { return }
            await body(self)
        }
        let isKept = core.withBoard { _ in
            guard lifecycle.finalOutcome == nil else { return false }
            madeExtras.timers.append(task)
            return true
        }
        if !isKept { task.cancel() }
    }
}
