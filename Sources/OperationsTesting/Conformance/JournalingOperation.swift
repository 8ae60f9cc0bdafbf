import Operations
import ThreadSupport

/// Wraps the operation that is checked, and records the start and the end of each of its phases.
actor JournalingOperation<Work: Operation>: Operation {
    private let work: Work
    private let journal: PhaseJournal

    init(_ work: Work, _ journal: PhaseJournal) {
        self.work = work
        self.journal = journal
    }

    func main(_ context: OperationContext) async throws -> Work.Output {
        try await work.main(context)
    }

    func operationDidStart(_ context: OperationContext) async {
        await journal.noting(.start) { await work.operationDidStart(context) }
    }

    func operationDidMakeProgress(_ progress: OperationProgress) async {
        await journal.noting(.progress(progress.fractionCompleted)) { await work.operationDidMakeProgress(progress) }
    }

    func operationDidComplete(_ output: Work.Output) async {
        await journal.noting(.ending(.finished)) { await work.operationDidComplete(output) }
    }

    func operationDidFail(_ error: any Error) async {
        await journal.noting(.ending(.failed)) { await work.operationDidFail(error) }
    }

    func operationWasCancelled() async {
        await journal.noting(.ending(.cancelled)) { await work.operationWasCancelled() }
    }
}

/// The phases of one run, in order.
final class PhaseJournal: Sendable {
    enum Phase: Sendable, Hashable {
        case start
        case progress(Double)
        case ending(OperationState)
    }

    private struct Entry {
        var phase: Phase
        var isEnd: Bool
    }

    private let entries = Locked<[Entry]>([])

    /// Runs the body of a phase, and records its start and its end.
    nonisolated(nonsending) func noting(_ phase: Phase, _ body: nonisolated(nonsending) () async -> Void) async {
        entries.withLock { $0.append(Entry(phase: phase, isEnd: false)) }
        await body()
        entries.withLock { $0.append(Entry(phase: phase, isEnd: true)) }
    }

    /// The promises that a run that ended in `state` broke.
    func violations(ended state: OperationState) -> [String] {
        let entries = entries.withLock { $0 }
        // An operation that is cancelled before it starts has no run.
        guard let first = entries.first else { return state == .cancelled ? [] : ["it had no phases, but is \(state)"] }
        var violations: [String] = []
        if first.phase != .start { violations.append("its first phase was \(first.phase)") }
        var open: Phase?
        var fraction = 0.0
        var endings: [OperationState] = []
        for entry in entries {
            if entry.isEnd {
                open = nil
                continue
            }
            if let open { violations.append("\(entry.phase) overlapped \(open)") }
            if let ending = endings.first { violations.append("\(entry.phase) came after the ending, \(ending)") }
            open = entry.phase
            switch entry.phase {
            case .start: break
            case .progress(let next):
                if next < fraction || next >= 1 { violations.append("progress went from \(fraction) to \(next)") }
                fraction = next
            case .ending(let ending): endings.append(ending)
            }
        }
        if let open { violations.append("\(open) never ended") }
        if endings != [state] { violations.append("it is \(state), but its endings were \(endings)") }
        return violations
    }
}
