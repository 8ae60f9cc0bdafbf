import Metrics

/// A supervisor's metrics for swift-metrics, created once.
///
/// The initializer returns `nil` if the process doesn't collect metrics. The scheduler's lock is held during each call, so
/// that the meters are set in the order of the decisions.
struct SupervisorMetrics: Sendable {
    private let waiting: Meter
    private let running: Meter
    private let endings: [OperationLifecycle.Outcome: Counter]
    private let retries: Counter
    private let duration: Metrics.Timer

    init?(supervisor: String) {
        guard !(MetricsSystem.factory is NOOPMetricsHandler) else { return nil }
        let dimensions = [("supervisor", supervisor)]
        waiting = Meter(label: "operations.waiting", dimensions: dimensions)
        running = Meter(label: "operations.running", dimensions: dimensions)
        endings = Dictionary(
            uniqueKeysWithValues: [OperationLifecycle.Outcome.finished, .failed, .cancelled].map { outcome in
                (outcome, Counter(label: "operations.ended", dimensions: dimensions + [("outcome", "\(outcome)")]))
            }
        )
        retries = Counter(label: "operations.retried", dimensions: dimensions)
        duration = Metrics.Timer(label: "operations.duration", dimensions: dimensions)
    }

    /// Records the current numbers, after anything that may have changed them.
    func record(waiting: Int, running: Int) {
        self.waiting.set(waiting)
        self.running.set(running)
    }

    func ended(_ outcome: OperationLifecycle.Outcome, after duration: Duration?) {
        endings[outcome]?.increment()
        if let duration { self.duration.record(duration: duration) }
    }

    func retried() {
        retries.increment()
    }
}
