import Logging

// What is told to logs and metrics. Nothing is put together where nobody listens, and messages are written outside the lock.

extension SchedulerBoard {
    /// How many operations wait and run has changed.
    func reportCounts() {
        environment.metrics?.record(
            waiting: scheduler.count - joinedCount - scheduler.runningCount,
            running: scheduler.runningCount
        )
    }

    /// An operation's run begins.
    func noteStart(of record: OperationRecord, _ actions: inout [SchedulerAction]) {
        let isLogged = environment.logs(.debug)
        guard isLogged || environment.metrics != nil else { return }
        record.madeExtras.startedAt = environment.now()
        guard isLogged else { return }
        let metadata = metadata(of: record)
        actions.append(.log { $0.logger.debug("operation started", metadata: metadata) })
    }

    /// An operation ended, with or without a run; or it was abandoned, which is worth a warning.
    func noteEnd(
        of record: OperationRecord,
        _ outcome: OperationLifecycle.Outcome,
        _ error: (any Error)?,
        isAbandoned: Bool = false,
        _ actions: inout [SchedulerAction]
    ) {
        // What joined another operation is no work of its own.
        guard record.extras?.target == nil else { return }
        let duration = record.extras?.startedAt.map { environment.now() - $0 }
        environment.metrics?.ended(outcome, after: duration)
        let level = isAbandoned ? Logger.Level.warning : .debug
        guard environment.logs(level) else { return }
        var metadata = metadata(of: record)
        metadata["operation.outcome"] = "\(outcome)"
        if let duration { metadata["operation.duration"] = "\(duration)" }
        actions.append(
            .log { [metadata] in
                let message: Logger.Message = isAbandoned ? "operation abandoned" : "operation ended"
                $0.logger.log(level: level, message, error: error, metadata: metadata)
            }
        )
    }

    /// An attempt failed, and another one is to follow.
    func noteRetry(
        of record: OperationRecord,
        attempt: Int,
        in delay: Duration,
        after error: any Error,
        _ actions: inout [SchedulerAction]
    ) {
        environment.metrics?.retried()
        guard environment.logs(.debug) else { return }
        var metadata = metadata(of: record)
        metadata["operation.attempt"] = "\(attempt)"
        metadata["operation.delay"] = "\(delay)"
        actions.append(
            .log { [metadata] in $0.logger.debug("operation will be retried", error: error, metadata: metadata) }
        )
    }

    /// An operation makes no progress.
    func noteStall(of record: OperationRecord, for timeout: Duration, _ actions: inout [SchedulerAction]) {
        guard environment.logs(.warning) else { return }
        var metadata = metadata(of: record)
        metadata["operation.stallTimeout"] = "\(timeout)"
        actions.append(
            .log { [metadata] in
                $0.logger.warning(
                    "operation has stalled: see what it waits for, or let it report progress more often",
                    metadata: metadata
                )
            }
        )
    }

    /// The supervisor suspended itself.
    func noteSuspension(_ limit: RestartIntensity, _ actions: inout [SchedulerAction]) {
        actions.append(
            .log { environment in
                environment.logger.error(
                    "supervisor suspended itself: see to the cause, then set isSuspended to false",
                    metadata: [
                        "supervisor.name": "\(environment.name)",
                        "supervisor.maximumFailures": "\(limit.maximumFailures)",
                        "supervisor.period": "\(limit.period)",
                    ]
                )
            }
        )
    }

    private func metadata(of record: OperationRecord) -> Logger.Metadata {
        ["operation.id": "\(record.id)", "operation.name": "\(record.name)"]
    }
}
