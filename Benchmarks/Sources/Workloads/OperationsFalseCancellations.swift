import Operations
import Synchronization

/// The handles of one round, and the cancellations that its operations observed.
private final class Field: Sendable {
    let handles = Mutex<[OperationHandle<Void>]>([])
    /// The victim that started last.
    let latestVictim = Atomic(0)
    let falseCancellations = Atomic(0)
    let cancelledWhileRunning = Atomic(0)
}

/// An operation that checks whether it's cancelled, or cancels the next one, or waits to be cancelled.
private actor Watchful: Operation {
    static let period = 100

    private let index: Int
    private let field: Field

    init(_ index: Int, _ field: Field) {
        self.index = index
        self.field = field
    }

    private var isVictim: Bool { index % Self.period == Self.period - 1 }

    func main(_ context: OperationContext) async throws {
        look(context)
        if isVictim {
            field.latestVictim.store(index, ordering: .relaxed)
            for _ in 0..<1_000 where !Task.isCancelled { await Task.yield() }
            try Task.checkCancellation()
        } else {
            await Task.yield()
            if (index + 1) % Self.period == Self.period - 1 {
                // Usually another worker starts the victim meanwhile.
                for _ in 0..<1_000 where field.latestVictim.load(ordering: .relaxed) <= index { await Task.yield() }
                field.handles.withLock { $0[index + 1] }.cancel()
            }
            look(context)
        }
    }

    func operationDidComplete(_ output: Void) {
        if !isVictim, Task.isCancelled { field.falseCancellations.add(1, ordering: .relaxed) }
    }

    func operationWasCancelled() {
        if isVictim {
            field.cancelledWhileRunning.add(1, ordering: .relaxed)
        } else {
            field.falseCancellations.add(1, ordering: .relaxed)
        }
    }

    private func look(_ context: OperationContext) {
        guard !isVictim, Task.isCancelled || context.isCancellationRequested else { return }
        field.falseCancellations.add(1, ordering: .relaxed)
    }
}

/// Runs `count` operations that aren't cancelled, among others that are cancelled.
func operationsFalseCancellations(_ count: Int) async throws -> Measurement {
    let total = count * Watchful.period / (Watchful.period - 1)
    let roundSize = min(total, 100_000)
    var (added, falseOnes, running, left) = (0, 0, 0, 0)
    let duration = try await timed {
        while added < total {
            let field = Field()
            let supervisor = heldBack()
            let handles = (0..<roundSize).map { supervisor.add(Watchful($0, field)) }
            field.handles.withLock { $0 = handles }
            supervisor.isSuspended = false
            try await supervisor.drain()
            added += roundSize
            falseOnes += field.falseCancellations.load(ordering: .relaxed)
            running += field.cancelledWhileRunning.load(ordering: .relaxed)
            left += handles.count { !$0.state.isEnded }
            // Breaks the cycle: the operations hold the field, and the field holds the handles.
            field.handles.withLock { $0 = [] }
        }
    }
    return Measurement(
        duration,
        ["wrong": Double(falseOnes + left), "cancelledWhileRunning": Double(running)]
    )
}
