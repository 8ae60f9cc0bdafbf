import Tracing

extension Tracing.Span {
    /// Records the operation's outcome.
    func record(_ departure: OperationRecord.Departure.Outcome, after failure: (any Error)?) {
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
