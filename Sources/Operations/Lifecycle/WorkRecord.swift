import ThreadSupport
import Tracing

/// The record of an operation that this supervisor runs.
final class WorkRecord<Work: Operation>: TypedOperationRecord<Work.Output>, @unchecked Sendable {
    // Sendable: as in the superclass.
    private var operation: Work?

    /// Creates an operation when its turn comes, and again for each attempt.
    final class Factory: Sendable {
        let make: @Sendable () throws -> Work
        init(_ make: @escaping @Sendable () throws -> Work) { self.make = make }
    }

    init(_ operation: Work, options: OperationOptions? = nil, core: SchedulerCore) {
        LiveOperations.insert(operation)
        self.operation = operation
        super.init(options: options, core: core)
    }

    init(options: OperationOptions?, core: SchedulerCore, make: @escaping @Sendable () throws -> Work) {
        super.init(options: options, core: core)
        noteFactory()
        madeExtras.factory = Factory(make)
    }

    override var typeName: String { String(describing: Work.self) }

    override func clear() -> AnyObject? {
        defer { operation = nil }
        return operation
    }

    override func pumpProgress() async {
        guard let operation = core.withBoard({ _ in self.operation }) else { return }
        await CurrentOperation.$record.withValue(self) {
            while let progress = takeProgress() { await operation.operationDidMakeProgress(progress) }
        }
    }

    // MARK: The run

    override func execute() async {
        let ending = OperationEnding(self)
        let operation = await CurrentOperation.$record.withValue(self) {
            guard hasOptions || core.environment.stallTimeout != nil else { return await traced() }
            let (serviceContext, stallTimeout) = core.withBoard { _ in
                (extras?.serviceContext, extras?.options.stallTimeout)
            }
            startWatchdog(stallTimeout)
            guard let serviceContext else { return await traced() }
            return await ServiceContext.withValue(serviceContext) { await traced() }
        }
        if let operation { LiveOperations.remove(operation) }
        await ending.end()
    }

    /// Performs the run, in a span if there is a tracer.
    private func traced() async -> Work? {
        guard let tracer = core.environment.tracer else { return await perform(in: nil) }
        return await tracer.withAnySpan(core.withBoard { _ in name }) { span in
            span.attributes["operation.id"] = "\(id)"
            return await perform(in: span)
        }
    }

    /// Performs the start phase, all attempts of `main`, the last progress phase and the ending phase.
    ///
    /// Returns the operation that ran last. It is held until the end, so that its `deinit` never runs under the lock.
    private func perform(in span: (any Span)?) async -> Work? {
        // Between the grant and the end only this task changes the operation, so it's read without the lock.
        var operation = operation
        var failure: (any Error)?
        var attempt = 1
        var hasStarted = false
        repeat {
            do {
                let current = try self.operation(replacing: operation)
                operation = current
                let context = OperationContext(record: self, attempt: attempt)
                let isFirst = !hasStarted
                hasStarted = true
                failure = await WaitRegistry.working(as: partyName) {
                    await current.attempt(context, self, isFirst: isFirst)
                }
            } catch {
                failure = error
            }
            span?.record(failure, ofAttempt: attempt)
            attempt += 1
        } while await retries(after: &failure, nextAttempt: attempt)
        let departure = await leaveMain(failure)
        span?.record(departure.outcome, after: failure)
        guard let operation, hasStarted else { return operation }
        await shielded(if: departure.isCancelled) { await operation.endingPhase(departure.outcome, self) }
        return operation
    }

    /// Returns the operation for an attempt; a factory creates a new one for each attempt.
    private func operation(replacing former: Work?) throws -> Work {
        // An operation that was added as such has no factory.
        if let former, !hasFactory { return former }
        guard let factory = core.withBoard({ _ in extras?.factory as? Factory }) else {
            preconditionFailure("operation \(id) has no operation")
        }
        let made = try factory.make()
        LiveOperations.insert(made)
        core.withBoard { _ in operation = made }
        if let former { LiveOperations.remove(former) }
        return made
    }

    /// The operation's name in reports of deadlocks.
    private var partyName: String { "operation \(id) (\(core.withBoard { _ in name }))" }
}

extension Span {
    /// Records the error of one call of `main`.
    ///
    /// A cancellation isn't recorded as an error.
    fileprivate func record(_ failure: (any Error)?, ofAttempt attempt: Int) {
        guard let failure, !(failure is CancellationError) else { return }
        recordError(failure, attributes: ["operation.attempt": .int64(Int64(attempt))])
    }

    /// Records the operation's outcome.
    fileprivate func record(_ departure: OperationRecord.Departure.Outcome, after failure: (any Error)?) {
        switch departure {
        case .completed:
            attributes["operation.outcome"] = "\(OperationLifecycle.Outcome.finished)"
        case .abandoned:
            attributes["operation.outcome"] = "abandoned"
            setStatus(SpanStatus(code: .error, message: "abandoned"))
        case .failed(let error):
            attributes["operation.outcome"] = "\(OperationLifecycle.Outcome(error))"
            guard !(error is CancellationError) else { return }
            // A deadline or a stall turns its cancellation into a failure. No attempt threw that error, so it's recorded here.
            if failure is CancellationError { recordError(error) }
            setStatus(SpanStatus(code: .error, message: "\(error)"))
        }
    }
}

extension Operation {
    /// Calls `main` once, and the start phase before the first call.
    ///
    /// - Returns: The error that `main` threw, if it did.
    fileprivate func attempt(
        _ context: OperationContext,
        _ record: TypedOperationRecord<Output>,
        isFirst: Bool
    ) async -> (any Error)? {
        if isFirst { await operationDidStart(context) }
        do {
            try Task.checkCancellation()
            record.keep(try await main(context))
            return nil
        } catch {
            return error
        }
    }

    fileprivate func endingPhase(
        _ departure: OperationRecord.Departure.Outcome,
        _ record: TypedOperationRecord<Output>
    ) async {
        switch departure {
        case .completed: if let output = record.keptOutput { await operationDidComplete(output) }
        case .failed(is CancellationError): await operationWasCancelled()
        case .failed(let error): await operationDidFail(error)
        case .abandoned: break
        }
    }
}
