import Synchronization
import ThreadSupport

/// A record that knows its operation and its output: the one generic part, kept small.
final class TypedOperationRecord<Output: Sendable>: OperationRecord, @unchecked Sendable {
    // Sendable: `payload` is under a lock; everything else is the superclass's.
    enum Payload: Sendable {
        /// An operation that was given.
        case operation(any Operation<Output>)
        /// An operation that is made when its turn comes, from the output of another one.
        case factory(@Sendable () throws -> any Operation<Output>, typeName: String)
        /// Taken up by a worker, or cleared.
        case taken(typeName: String)
        /// Ended.
        case ended(Result<Output, any Error>, typeName: String)
    }

    private let payload: Mutex<Payload>

    init(
        _ payload: Payload,
        options: OperationOptions,
        environment: OperationEnvironment,
        scheduler: SchedulerCore?
    ) {
        if case .operation(let operation) = payload { LiveOperations.insert(operation) }
        self.payload = Mutex(payload)
        super.init(options: options, environment: environment, scheduler: scheduler)
    }

    override var typeName: String {
        switch payload.withLock({ $0 }) {
        case .operation(let operation): String(describing: type(of: operation))
        case .factory(_, let name), .taken(let name), .ended(_, let name): name
        }
    }

    /// How it ended.
    ///
    /// Only to be asked once it has.
    var result: Result<Output, any Error> {
        guard case .ended(let result, _) = payload.withLock({ $0 }) else {
            preconditionFailure("the result of operation \(id) was asked for while it is \(state)")
        }
        return result
    }

    override var failure: (any Error)? {
        guard case .ended(.failure(let error), _) = payload.withLock({ $0 }) else { return nil }
        return error
    }

    /// Runs the operation, phases and all, in the current task.
    override func execute() async {
        let ending = OperationEnding(self)
        let operation: any Operation<Output>
        do {
            operation = try take()
        } catch {
            return ending.end(.failure(error))
        }
        await operation.perform(self, ending)
    }

    /// Ends an operation that never ran: withdrawn, or one of those it depends on didn't end well.
    override func endWithoutRunning(_ error: any Error) {
        OperationEnding(self).end(.failure(error))
    }

    /// Puts the result in place, clears the operation and tells everybody.
    ///
    /// Called through ``OperationEnding`` alone.
    func end(_ result: Result<Output, any Error>) {
        let name = typeName
        let former = payload.withLock { payload in
            let former = payload
            payload = .ended(result, typeName: name)
            return former
        }
        if case .operation(let operation) = former { LiveOperations.remove(operation) }
        finishEnding(OperationLifecycle.Outcome(result))
    }

    private func take() throws -> any Operation<Output> {
        let name = typeName
        let former = payload.withLock { payload in
            let former = payload
            payload = .taken(typeName: name)
            return former
        }
        switch former {
        case .operation(let operation):
            return operation
        case .factory(let make, _):
            let operation = try make()
            LiveOperations.insert(operation)
            return operation
        case .taken, .ended:
            preconditionFailure("operation \(id) was taken up twice")
        }
    }
}

extension OperationLifecycle.Outcome {
    init<Output>(_ result: Result<Output, any Error>) {
        switch result {
        case .success: self = .finished
        case .failure(is CancellationError): self = .cancelled
        case .failure: self = .failed
        }
    }
}

extension Operation {
    /// The whole run, in one hop to the actor: start, `main`, the end of progress, the ending phase, the end.
    fileprivate func perform(
        _ record: TypedOperationRecord<Output>,
        _ ending: consuming OperationEnding<Output>
    ) async {
        let run = OperationRun(record.environment) {
            while let progress = record.takeProgress() { await self.operationDidMakeProgress(progress) }
        }
        guard record.begin(run) == .run else {
            LiveOperations.remove(self)
            return ending.end(.failure(CancellationError()))
        }
        let context = OperationContext(record: record, run: run)
        let result = await WaitRegistry.working(as: "operation \(record.id) (\(record.name))") {
            await outcome(of: context)
        }
        record.closeProgress()
        await run.finishPump()
        record.beginEnding(OperationLifecycle.Outcome(result))
        await record.environment.shielded {
            await self.endingPhase(result)
            await run.removeTemporaryDirectory()
        }
        LiveOperations.remove(self)
        ending.end(result)
    }

    private func outcome(of context: OperationContext) async -> Result<Output, any Error> {
        await operationDidStart(context)
        do {
            try Task.checkCancellation()
            return .success(try await main(context))
        } catch {
            return .failure(error)
        }
    }

    private func endingPhase(_ result: Result<Output, any Error>) async {
        switch result {
        case .success(let output): await operationDidComplete(output)
        case .failure(is CancellationError): await operationWasCancelled()
        case .failure(let error): await operationDidFail(error)
        }
    }
}
