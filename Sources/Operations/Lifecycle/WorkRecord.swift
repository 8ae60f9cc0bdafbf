import ServiceContextModule
import ThreadSupport
import Tracing

/// The record of an operation that this supervisor runs.
final class WorkRecord<Work: Operation>: TypedOperationRecord<Work.Output>, @unchecked Sendable {
    // Sendable: as in the superclass.
    /// Creates an operation when its turn comes, and again for each attempt.
    final class Factory: Sendable {
        let make: @Sendable () throws -> Work
        init(_ make: @escaping @Sendable () throws -> Work) { self.make = make }
    }

    init(_ operation: Work, options: OperationOptions? = nil, core: SchedulerCore) {
        LiveOperations.insert(operation)
        super.init(options: options, core: core)
        self.operation = operation
    }

    init(options: OperationOptions?, core: SchedulerCore, make: @escaping @Sendable () throws -> Work) {
        super.init(options: options, core: core)
        hasFactory = true
        madeExtras.factory = Factory(make)
    }

    override var typeName: String { String(describing: Work.self) }

    override func pumpProgress() async {
        await CurrentOperation.$record.withValue(self) {
            while let (progress, operation) = takeProgress() { await operation.operationDidMakeProgress(progress) }
        }
    }

    /// Returns the progress to deliver, and the operation of the current attempt, which gets it.
    private func takeProgress() -> (OperationProgress, Work)? {
        core.withBoard { _ in
            guard let progress = extras?.mailbox.take(), let operation else { return nil }
            return (progress, typed(operation))
        }
    }

    // MARK: The run

    override func execute() async {
        await CurrentOperation.$record.withValue(self) { isObserved ? await performObserved() : await perform() }
        // Its `deinit` is code of its author, which must not run under the lock.
        let operation = operation
        if let operation { LiveOperations.remove(operation) }
        while let directory = core.withBoard({ $0.end(self) }) { await remove(directory) }
        extendLifetime(operation)
    }

    /// Whether the run may have a service context, a watchdog or a span, or belongs to a simulation.
    private var isObserved: Bool {
        hasOptions || core.environment.isObserving || WaitRegistry.current != nil
    }

    private func performObserved() async {
        let (serviceContext, stallTimeout, name) = core.withBoard { _ in
            (extras?.serviceContext, extras?.options.stallTimeout, self.name)
        }
        startWatchdog(stallTimeout)
        return await WaitRegistry.working(as: "operation \(id) (\(name))") {
            guard let serviceContext else { return await performInSpan(name) }
            return await ServiceContext.withValue(serviceContext) { await performInSpan(name) }
        }
    }

    private func performInSpan(_ name: String) async {
        guard let tracer = core.environment.tracer else { return await perform() }
        return await tracer.withAnySpan(name) { span in
            span.attributes["operation.id"] = "\(id)"
            core.withBoard { _ in madeExtras.span = span }
            defer { core.withBoard { _ in extras?.span = nil } }
            return await perform()
        }
    }

    /// Performs all attempts, and the phases of the run with them.
    private func perform() async {
        var attempt = 1
        while true {
            do {
                let isFirst = try prepare(attempt)
                guard let operation, await typed(operation).perform(attempt, isFirst: isFirst, of: self) else { return }
            } catch {
                if let departure = await conclude(attempt, after: error) {
                    // The operation of a former attempt ends the phases that it began.
                    if let operation { await typed(operation).end(departure, of: self) }
                    return
                }
            }
            attempt += 1
        }
    }

    /// Creates the operation of an attempt, if there is a factory, which creates a new one for each attempt.
    ///
    /// Between the grant and the end, only the task of the run changes the operation, and reads it without the lock.
    ///
    /// - Returns: Whether no operation has begun its phases yet.
    private func prepare(_ attempt: Int) throws -> Bool {
        // An operation that was added as such has no factory.
        guard hasFactory else { return attempt == 1 }
        // An abandoned operation has lost its factory, and is never created.
        guard let factory = core.withBoard({ _ in extras?.factory as? Factory }) else { throw CancellationError() }
        let made = try factory.make()
        // The factory returned the same actor again, so only `main` is called again.
        guard made !== operation else { return false }
        LiveOperations.insert(made)
        let former = operation
        core.withBoard { _ in operation = made }
        if let former { LiveOperations.remove(former) }
        return former == nil
    }

    private func typed(_ operation: AnyObject) -> Work {
        // Only the initializer and `prepare` set the operation, both to an instance of this type.
        unsafeDowncast(operation, to: Work.self)
    }
}

extension Operation {
    /// Performs one attempt: the start phase before the first, `main`, and the ending phase after the last.
    ///
    /// Isolated to the operation, so the phases follow one another without leaving the actor.
    ///
    /// - Returns: Whether another attempt follows.
    fileprivate func perform(_ attempt: Int, isFirst: Bool, of record: WorkRecord<Self>) async -> Bool {
        let context = OperationContext(record: record, attempt: attempt)
        // An operation that was abandoned before this, which implies that it was cancelled, has no phases.
        if isFirst, !record.hasEnded { await operationDidStart(context) }
        var failure: (any Error)?
        do {
            guard !record.isCancellationRequested else { throw CancellationError() }
            record.output = try await main(context)
            guard !record.finishIfUndisturbed() else {
                if let output = record.output { await operationDidComplete(output) }
                return false
            }
        } catch {
            failure = error
        }
        guard let departure = await record.conclude(attempt, after: failure) else { return true }
        await end(departure, of: record)
        return false
    }

    /// Calls the ending phase, which isn't cancelled even if the operation was.
    fileprivate func end(_ departure: OperationRecord.Departure, of record: WorkRecord<Self>) async {
        guard departure.isCancelled else { return await callEndingPhase(departure.outcome, record) }
        await record.shielded { await self.callEndingPhase(departure.outcome, record) }
    }

    private func callEndingPhase(_ outcome: OperationRecord.Departure.Outcome, _ record: WorkRecord<Self>) async {
        switch outcome {
        case .completed: if let output = record.output { await operationDidComplete(output) }
        case .failed(is CancellationError): await operationWasCancelled()
        case .failed(let error): await operationDidFail(error)
        case .abandoned: break
        }
    }
}
