import Tracing

/// The record of an operation that is run here.
final class WorkRecord<Work: Operation>: TypedOperationRecord<Work.Output>, @unchecked Sendable {
    // Sendable: as in the superclass.
    private var operation: Work?

    /// Makes an operation when its turn comes, or anew for each attempt.
    final class Factory: Sendable {
        let make: @Sendable () throws -> Work
        init(_ make: @escaping @Sendable () throws -> Work) { self.make = make }
    }

    init(_ operation: Work, options: OperationOptions?, core: SchedulerCore) {
        LiveOperations.insert(operation)
        self.operation = operation
        super.init(options: options, core: core)
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

    private var current: (operation: Work?, serviceContext: ServiceContext?, stallTimeout: Duration?) {
        core.withBoard { _ in (operation, extras?.serviceContext, extras?.options.stallTimeout) }
    }

    /// The operation of an attempt; one that comes from a factory is made anew for each.
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

    /// The whole run, in a span where spans are made, and the end.
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

    /// Start, `main` as often as it's tried, the end of progress, the ending phase.
    private func perform(_ given: Work?, in span: (any Span)?) async {
        var operation = given
        var result: Result<Work.Output, any Error>
        var attempt = 1
        var hasStarted = false
        repeat {
            do {
                let current = try self.operation(replacing: operation)
                operation = current
                let context = OperationContext(record: self, attempt: attempt)
                result = await current.attempt(context, isFirst: !hasStarted)
                hasStarted = true
            } catch {
                result = .failure(error)
            }
            span?.record(result, ofAttempt: attempt)
            attempt += 1
        } while await retries(after: &result, nextAttempt: attempt)
        let outcome = await leaveMain(result)
        span?.record(outcome, after: result)
        if let outcome, let operation, hasStarted {
            await core.shielded { await operation.endingPhase(outcome) }
        }
        await removeTemporaryDirectory()
    }
}

extension Span {
    /// One call of `main` is over.
    ///
    /// A cancellation is no error.
    fileprivate func record<Output>(_ result: Result<Output, any Error>, ofAttempt attempt: Int) {
        guard case .failure(let error) = result, !(error is CancellationError) else { return }
        recordError(error, attributes: ["operation.attempt": .int64(Int64(attempt))])
    }

    /// The operation is over; `outcome` is `nil` if that was so before `main` came back.
    fileprivate func record<Output>(_ outcome: Result<Output, any Error>?, after result: Result<Output, any Error>) {
        guard let outcome else {
            attributes["operation.outcome"] = "abandoned"
            return setStatus(SpanStatus(code: .error, message: "abandoned"))
        }
        attributes["operation.outcome"] = "\(OperationLifecycle.Outcome(outcome))"
        guard case .failure(let error) = outcome, !(error is CancellationError) else { return }
        // A deadline or a stall turns the cancellation that it causes into a failure, which no attempt has thrown.
        if case .failure(is CancellationError) = result { recordError(error) }
        setStatus(SpanStatus(code: .error, message: "\(error)"))
    }
}

extension Operation {
    /// One call of `main`, the first one with the phase before it.
    fileprivate func attempt(_ context: OperationContext, isFirst: Bool) async -> Result<Output, any Error> {
        if isFirst { await operationDidStart(context) }
        do {
            try Task.checkCancellation()
            return .success(try await main(context))
        } catch {
            return .failure(error)
        }
    }

    fileprivate func endingPhase(_ result: Result<Output, any Error>) async {
        switch result {
        case .success(let output): await operationDidComplete(output)
        case .failure(is CancellationError): await operationWasCancelled()
        case .failure(let error): await operationDidFail(error)
        }
    }
}
