import Synchronization
import ThreadSupport

/// Finds out whether an operation implements a phase: the default implementations note that they were called.
///
/// They do so only during an inspection. Every other run pays a relaxed load for each default implementation.
package enum DefaultPhase {
    private static let inspectionCount = Atomic<Int>(0)
    /// The inspected operations that have called no default implementation yet.
    private static let inspected = Locked<Set<ObjectIdentifier>>([])

    static func noteCall(by operation: some Operation) {
        guard inspectionCount.load(ordering: .relaxed) > 0 else { return }
        _ = inspected.withLock { $0.remove(ObjectIdentifier(operation)) }
    }

    /// Returns whether `body`, which calls one phase of the operation without a run, calls its default implementation.
    package nonisolated(nonsending) static func isCalled<Work: Operation>(
        by operation: Work,
        _ body: nonisolated(nonsending) (OperationContext) async -> Void
    ) async -> Bool {
        let record = WorkRecord(operation, options: nil, core: SchedulerCore(.init()))
        defer { LiveOperations.remove(operation) }
        inspectionCount.add(1, ordering: .relaxed)
        defer { inspectionCount.subtract(1, ordering: .relaxed) }
        inspected.withLock { _ = $0.insert(ObjectIdentifier(operation)) }
        await body(OperationContext(record: record, attempt: 1))
        if let directory = record.core.withBoard({ _ in record.extras?.temporaryDirectory.take() }) {
            await record.remove(directory)
        }
        return inspected.withLock { $0.remove(ObjectIdentifier(operation)) } == nil
    }
}
