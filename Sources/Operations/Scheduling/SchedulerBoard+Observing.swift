import Logging
import ServiceContextModule

// Logs and metrics. A message is formatted only if it is logged, and it is written outside the lock.

extension SchedulerBoard {
    /// Records how many operations wait and how many run.
    func reportCounts() {
        environment.metrics?.record(
            waiting: scheduler.count - joinedCount - scheduler.runningCount,
            running: scheduler.runningCount
        )
    }

    /// Records the start of an operation's run.
    mutating func noteStart(of record: OperationRecord) {
        let isLogged = environment.logs(.debug)
        guard isLogged || environment.metrics != nil else { return }
        record.madeExtras.startedAt = environment.now()
        guard isLogged else { return }
        let metadata = metadata(of: record)
        log(record) { $0.debug("operation started", metadata: metadata) }
    }

    /// Records the end of an operation, with or without a run; an abandoned operation is logged as a warning.
    mutating func noteEnd(
        of record: OperationRecord,
        _ outcome: OperationLifecycle.Outcome,
        isAbandoned: Bool = false
    ) {
        // An operation that joined another one isn't work of its own.
        guard record.extras?.target == nil else { return }
        let duration = record.extras?.startedAt.map { environment.now() - $0 }
        environment.metrics?.ended(outcome, after: duration)
        let level = isAbandoned ? Logger.Level.warning : .debug
        guard environment.logs(level) else { return }
        var metadata = metadata(of: record)
        metadata["operation.outcome"] = "\(outcome)"
        if let duration { metadata["operation.duration"] = "\(duration)" }
        log(record) { [metadata, error = record.failure] in
            let message: Logger.Message = isAbandoned ? "operation abandoned" : "operation ended"
            $0.log(level: level, message, error: error, metadata: metadata)
        }
    }

    /// Records that an attempt failed and another one follows.
    mutating func noteRetry(
        of record: OperationRecord,
        attempt: Int,
        in delay: Duration,
        after error: any Error
    ) {
        environment.metrics?.retried()
        guard environment.logs(.debug) else { return }
        var metadata = metadata(of: record)
        metadata["operation.attempt"] = "\(attempt)"
        metadata["operation.delay"] = "\(delay)"
        log(record) { [metadata] in $0.debug("operation will be retried", error: error, metadata: metadata) }
    }

    /// Records that an operation makes no progress.
    mutating func noteStall(of record: OperationRecord, for timeout: Duration) {
        guard environment.logs(.warning) else { return }
        var metadata = metadata(of: record)
        metadata["operation.stallTimeout"] = "\(timeout)"
        log(record) { [metadata] in
            $0.warning(
                "operation has stalled: find out what it waits for, or make it report progress more often",
                metadata: metadata
            )
        }
    }

    /// Records that the supervisor suspended itself.
    mutating func noteSuspension(_ limit: RestartIntensity) {
        emit(
            .call { [environment] in
                environment.configuration.logger.error(
                    "supervisor suspended itself: fix the cause, then set isSuspended to false",
                    metadata: [
                        "supervisor.name": "\(environment.configuration.name)",
                        "supervisor.maximumFailures": "\(limit.maximumFailures)",
                        "supervisor.period": "\(limit.period)",
                    ]
                )
            }
        )
    }

    /// Writes a message outside the lock, in the service context in which the operation was added.
    private mutating func log(_ record: OperationRecord, _ write: @escaping @Sendable (Logger) -> Void) {
        emit(
            .call { [logger = environment.configuration.logger, serviceContext = record.extras?.serviceContext] in
                guard let serviceContext else { return write(logger) }
                ServiceContext.withValue(serviceContext) { write(logger) }
            }
        )
    }

    private func metadata(of record: OperationRecord) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            "operation.id": "\(record.id)", "operation.name": "\(record.name)",
            "supervisor.name": "\(environment.configuration.name)",
        ]
        if let client = record.options.clientIdentifier { metadata["operation.client"] = "\(client)" }
        return metadata
    }
}
