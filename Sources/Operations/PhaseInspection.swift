import Synchronization
import ThreadSupport

/// Finds out which phases an operation implements: the default implementations record that they ran.
///
/// They do so only during an inspection. Every other run pays a relaxed load for each default implementation.
package enum PhaseInspection {
    /// The phases of a run.
    package enum Phase: Sendable, Hashable { case start, progress, completion, failure, cancellation }

    /// The error that the failure phase is called with.
    private struct Failure: Error {}

    private static let inspectionCount = Atomic<Int>(0)
    @TaskLocal private static var defaults: Locked<Set<Phase>>?

    /// Records the call of a phase that the operation doesn't implement.
    static func noteDefault(_ phase: Phase) {
        guard inspectionCount.load(ordering: .relaxed) > 0 else { return }
        defaults?.withLock { _ = $0.insert(phase) }
    }

    /// Calls one phase of an operation, without a run, and returns whether the operation implements it.
    package nonisolated(nonsending) static func implements<Work: Operation>(
        _ phase: Phase,
        _ operation: Work,
        output: Work.Output
    ) async -> Bool {
        let record = WorkRecord(operation, options: nil, core: SchedulerCore(.init()))
        defer { LiveOperations.remove(operation) }
        let defaults = Locked<Set<Phase>>([])
        inspectionCount.add(1, ordering: .relaxed)
        defer { inspectionCount.subtract(1, ordering: .relaxed) }
        await $defaults.withValue(defaults) {
            switch phase {
            case .start: await operation.operationDidStart(OperationContext(record: record, attempt: 1))
            case .progress: await operation.operationDidMakeProgress(OperationProgress(fractionCompleted: 0.5))
            case .completion: await operation.operationDidComplete(output)
            case .failure: await operation.operationDidFail(Failure())
            case .cancellation: await operation.operationWasCancelled()
            }
        }
        if let directory = record.core.withBoard({ _ in record.extras?.temporaryDirectory.take() }) {
            await record.remove(directory)
        }
        return !defaults.withLock { $0.contains(phase) }
    }
}
