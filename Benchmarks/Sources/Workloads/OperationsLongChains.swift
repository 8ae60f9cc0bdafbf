import Operations
import Synchronization

/// Counts the operations that exist.
private final class Census: Sendable {
    let living = Atomic(0)
}

/// An operation that holds the handle of its dependency, just as an operation that uses its value does.
private actor Link: Operation {
    private let upstream: OperationHandle<Void>?
    private let census: Census
    private let error: (any Error)?

    init(after upstream: OperationHandle<Void>?, _ census: Census, error: (any Error)? = nil) {
        self.upstream = upstream
        self.census = census
        self.error = error
        census.living.add(1, ordering: .relaxed)
    }

    deinit { census.living.subtract(1, ordering: .relaxed) }

    func main(_ context: OperationContext) throws {
        if let error { throw error }
    }
}

private struct HeadFailed: Error {}

/// Adds a chain and returns its last handle.
private func addChain(
    to supervisor: OperationSupervisor,
    _ count: Int,
    _ census: Census
) -> OperationHandle<Void> {
    var last = supervisor.add(Link(after: nil, census, error: HeadFailed()))
    for _ in 1..<count { last = supervisor.add(Link(after: last, census), after: [last]) }
    return last
}

func operationsChainDropped(_ count: Int) async -> Measurement {
    let census = Census()
    let clock = ContinuousClock()
    var supervisor: OperationSupervisor? = heldBack()
    if let supervisor { _ = addChain(to: supervisor, count, census) }
    let start = clock.now
    supervisor = nil
    // The line above releases the last reference, and frees everything before it returns.
    return Measurement(clock.now - start, ["left": Double(census.living.load(ordering: .relaxed))])
}

func operationsChainFailed(_ count: Int) async throws -> Measurement {
    let census = Census()
    let supervisor = heldBack()
    let last = addChain(to: supervisor, count, census)
    let duration = try await timed {
        supervisor.isSuspended = false
        try await supervisor.drain()
    }
    let hasCause = last.error is HeadFailed
    // The supervisor drains a moment before the task that ran the last operation releases it.
    for _ in 0..<1_000 where census.living.load(ordering: .relaxed) > 0 { try await Task.sleep(for: .milliseconds(1)) }
    return Measurement(
        duration,
        ["left": Double(census.living.load(ordering: .relaxed)), "wrong": hasCause ? 0 : 1]
    )
}
