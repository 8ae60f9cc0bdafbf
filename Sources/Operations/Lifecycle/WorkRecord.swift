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

    init(_ operation: Work, core: SchedulerCore) {
        LiveOperations.insert(operation)
        self.operation = operation
        super.init(core: core)
        notePlainness()
    }

    init(_ operation: Work, options: OperationOptions?, core: SchedulerCore) {
        LiveOperations.insert(operation)
        self.operation = operation
        super.init(options: options, core: core)
        notePlainness()
    }

    init(options: OperationOptions?, core: SchedulerCore, make: @escaping @Sendable () throws -> Work) {
        super.init(options: options, core: core)
        madeExtras.factory = Factory(make)
    }

    override var typeName: String { String(describing: Work.self) }

    override func clear() -> AnyObject? {
        defer { operation = nil }
        return operation
    }

    override func execute() async {
        // Between the grant and the end no other task accesses the operation, so it's read without the lock.
        if isPlain, let operation {
            guard core.environment.isSimulated else { return await operation.perform(self) }
            // A plain operation has no name of its own. Asking for one would make the scheduler take the operation in.
            return await WaitRegistry.working(as: partyName(typeName)) { await operation.perform(self) }
        }
        await CurrentOperation.$record.withValue(self) {
            let (operation, serviceContext, stallTimeout) = current
            startWatchdog(stallTimeout)
            guard let serviceContext else { return await perform(operation) }
            await ServiceContext.withValue(serviceContext) { await perform(operation) }
        }
    }

    override func pumpProgress() async {
        guard let operation = current.operation else { return }
        await CurrentOperation.$record.withValue(self) {
            while let progress = takeProgress() { await operation.operationDidMakeProgress(progress) }
        }
    }

    /// The operation's name in reports of deadlocks.
    private func partyName(_ name: String) -> String { "operation \(id) (\(name))" }

    private var current: (operation: Work?, serviceContext: ServiceContext?, stallTimeout: Duration?) {
        core.withBoard { _ in (operation, extras?.serviceContext, extras?.options.stallTimeout) }
    }

    /// Returns the operation for an attempt; a factory creates a new one for each attempt.
    private func operation(replacing former: Work?) throws -> Work {
        let factory = core.withBoard { _ in extras?.factory as? Factory }
        guard let factory else {
            guard let former else { preconditionFailure("operation \(id) has no operation") }
            return former
        }
        let made = try factory.make()
        LiveOperations.insert(made)
        core.withBoard { _ in operation = made }
        if let former { LiveOperations.remove(former) }
        return made
    }

    /// Performs the whole run, in a span if there is a tracer, and ends the operation.
    private func perform(_ operation: Work?) async {
        let ending = OperationEnding(self)
        if let tracer = core.environment.tracer {
            let name = core.withBoard { _ in self.name }
            await tracer.withAnySpan(name) { span in
                span.attributes["operation.id"] = "\(id)"
                await perform(operation, in: span)
            }
        } else {
            await perform(operation, in: nil)
        }
        ending.end()
    }

    /// Performs the start phase, all attempts of `main`, the last progress phase and the ending phase.
    private func perform(_ given: Work?, in span: (any Span)?) async {
        var operation = given
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
                failure = await WaitRegistry.working(as: partyName(core.withBoard { _ in name })) {
                    await current.attempt(context, self, isFirst: isFirst)
                }
            } catch {
                failure = error
            }
            span?.record(failure, ofAttempt: attempt)
            attempt += 1
        } while await retries(after: &failure, nextAttempt: attempt)
        let departure = await leaveMain(failure)
        span?.record(departure, after: failure)
        if let operation, hasStarted {
            await shielded { await operation.endingPhase(departure, self) }
        }
        await removeTemporaryDirectory()
    }
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
    fileprivate func record(_ departure: OperationRecord.Departure, after failure: (any Error)?) {
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
    /// Performs the whole run of an operation that was added without special options, in one hop to the actor.
    fileprivate func perform(_ record: WorkRecord<Self>) async {
        await CurrentOperation.$record.withValue(record) {
            let ending = OperationEnding(record)
            let context = OperationContext(record: record, attempt: 1)
            await operationDidStart(context)
            do {
                try Task.checkCancellation()
                let output = try await main(context)
                record.keep(output)
                if record.takeExit() {
                    await operationDidComplete(output)
                } else {
                    await finish(after: nil, record)
                }
            } catch {
                record.countFailure(error)
                await finish(after: error, record)
            }
            LiveOperations.remove(self)
            ending.end(keepsOperation: true)
        }
    }

    /// Ends the run where the fast path doesn't apply.
    private func finish(after failure: (any Error)?, _ record: WorkRecord<Self>) async {
        let departure = await record.leaveMain(failure)
        await record.shielded { await self.endingPhase(departure, record) }
        await record.removeTemporaryDirectory()
    }

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
        _ departure: OperationRecord.Departure,
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
