import Operations
import OperationsTesting
import ThreadSupport

// DOC: alias
typealias Operation = Operations.Operation
// DOC: end

struct ProbeError: Error, Equatable {
    var name = "probe"
}

/// A log of events in order, written by operations and read by tests.
final class Journal: Sendable {
    private let entries = Locked<[String]>([])

    var all: [String] { entries.withLock { $0 } }

    func write(_ entry: String) {
        entries.withLock { $0.append(entry) }
    }
}

/// An operation that writes each of its phases into a journal, and runs a given closure as its `main`.
actor Probe<Output: Sendable>: Operation {
    let name: String
    let journal: Journal
    let body: @Sendable (OperationContext) async throws -> Output

    init(
        _ name: String = "probe",
        _ journal: Journal = Journal(),
        body: @escaping @Sendable (OperationContext) async throws -> Output
    ) {
        self.name = name
        self.journal = journal
        self.body = body
    }

    func main(_ context: OperationContext) async throws -> Output {
        journal.write("\(name) main")
        return try await body(context)
    }

    func operationDidStart(_ context: OperationContext) async { await phase("start") }
    func operationDidMakeProgress(_ progress: OperationProgress) async {
        await phase("progress \(progress.fractionCompleted)")
    }
    func operationDidComplete(_ output: Output) async { await phase("complete") }
    func operationDidFail(_ error: any Error) async { await phase("fail") }
    func operationWasCancelled() async { await phase("cancel") }

    /// Records a phase, and suspends once, to give other phases the chance to overlap it.
    private func phase(_ phase: String) async {
        journal.write("\(name) \(phase)")
        await Task.yield()
        journal.write("\(name) \(phase) over")
    }
}

/// A gate that tasks wait at until it is opened.
///
/// The wait can be cancelled.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiters: [Int: CheckedContinuation<Void, any Error>] = [:]
        var arrivals: [CheckedContinuation<Void, Never>] = []
        var next = 0
    }
    private let state = Locked(State())

    func wait() async throws {
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        try await waitCancellably { continuation in
            let (mustWait, arrivals) = state.withLock { state in
                let arrivals = state.arrivals
                state.arrivals = []
                if !state.isOpen { state.waiters[id] = continuation }
                return (!state.isOpen, arrivals)
            }
            for arrival in arrivals { arrival.resume() }
            return mustWait
        } remove: { [self] in
            state.withLock { $0.waiters.removeValue(forKey: id) }
        }
    }

    /// Returns once a task waits at the gate, or has waited.
    func arrival() async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if !state.waiters.isEmpty || state.next > 0 && state.isOpen { return true }
                state.arrivals.append(continuation)
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    func open() {
        let waiters = state.withLock { state in
            state.isOpen = true
            let waiters = Array(state.waiters.values)
            state.waiters = [:]
            return waiters
        }
        for waiter in waiters { waiter.resume() }
    }
}

extension OperationSupervisor.Configuration {
    init(_ simulation: Simulation, width: Int = 2, isSuspended: Bool = false) {
        self.init(simulation: simulation, width: width, isSuspended: isSuspended)
    }
}
