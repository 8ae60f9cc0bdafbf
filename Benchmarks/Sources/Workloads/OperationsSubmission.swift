import Operations
import Synchronization

/// Counts the endings of all operations.
private final class Tally: Sendable {
    let completions = Atomic(0)
    let cancellations = Atomic(0)
}

/// An operation that runs once, has one ending phase, and traps otherwise.
private actor Counted: Operation {
    private let tally: Tally
    private var hasRun = false
    private var hasEnded = false

    init(_ tally: Tally) { self.tally = tally }

    func main(_ context: OperationContext) {
        precondition(!hasRun, "ran twice")
        hasRun = true
    }

    func operationDidComplete(_ output: Void) {
        end()
        tally.completions.add(1, ordering: .relaxed)
    }

    func operationWasCancelled() {
        end()
        tally.cancellations.add(1, ordering: .relaxed)
    }

    private func end() {
        precondition(!hasEnded, "ended twice")
        hasEnded = true
    }
}

func operationsSubmission(_ count: Int, _ submitters: Submitters) async throws -> Measurement {
    let supervisor = OperationSupervisor(width: width)
    let tally = Tally()
    var handles: [OperationHandle<Void>] = []
    let duration = try await timed {
        handles = await submit(count, from: submitters) {
            supervisor.add(Counted(tally))
        } cancel: {
            $0.cancel()
        }
        try await supervisor.drain()
    }
    let states = Dictionary(grouping: handles, by: \.state).mapValues(\.count)
    let (finished, cancelled) = (states[.finished] ?? 0, states[.cancelled] ?? 0)
    var wrong = handles.count - finished - cancelled
    if finished != tally.completions.load(ordering: .relaxed) { wrong += 1 }
    if cancelled < tally.cancellations.load(ordering: .relaxed) { wrong += 1 }
    return Measurement(duration, ["wrong": Double(wrong), "cancelled": Double(cancelled)])
}
