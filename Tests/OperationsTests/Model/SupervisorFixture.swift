import OperationsTesting
import ThreadSupport

@testable import Operations

/// The records of a random program of supervisors: the operations, how they were added, which run, and all complaints.
final class SupervisorFixture: Sendable {
    enum Phase: Equatable, Sendable {
        case start
        case progress(Double)
        case end(OperationState)
    }

    /// An operation that is about to be added, with its options.
    struct Addition: Sendable {
        var number: Int
        var supervisor: Int
        var parent: Int?
        var dependencies: [(number: Int, onlyWaits: Bool)] = []
        var references: [any OperationReference] = []
        var options = OperationOptions()
        var isBarrier = false
    }

    struct Entry: Sendable {
        var addition: Addition
        var handle: OperationHandle<Int>
    }

    /// The records of an operation's run.
    struct Run {
        var hasStarted = false
        var current: Phase?
        var ending: OperationState?
        var endingCount = 0
        var progress = 0.0
        var hasFailed = false
        var isInside = false
    }

    struct Counts: Sendable {
        var runs = 0
        var refusedWaits = 0
        var refusedChildren = 0
        var refusedRoom = 0
        var addedDependencies = 0
        var refusedDependencies = 0
        var joined = 0
        var abandoned = 0
        /// Starts of an operation that a barrier separates from an older one.
        var barriers = 0
    }

    private struct State {
        var nextNumber = 0
        var additions: [Int: Addition] = [:]
        var entries: [Int: Entry] = [:]
        var runs: [Int: Run] = [:]
        var cancelled: Set<Int> = []
        var cancelledSupervisors: Set<Int> = []
        var uncooperative: Set<Int> = []
        var writtenOff: Set<OperationID> = []
        var complaints: [String] = []
        var counts = Counts()
    }

    let seed: UInt64
    let simulation: Simulation
    let supervisors: [OperationSupervisor]
    let maximumWidth = 3
    let allowsRoomWaits = true
    let traces: Traces
    private let state = Locked(State())

    init(_ simulation: Simulation, _ traces: Traces, using generator: inout SplitMix64) {
        seed = simulation.seed
        self.simulation = simulation
        self.traces = traces
        supervisors = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
            var configuration = OperationSupervisor.Configuration(
                simulation,
                width: Int.random(in: 1...3, using: &generator),
                isSuspended: generator.oneIn(3)
            )
            configuration.capacity = generator.oneIn(2) ? Int.random(in: 2...8, using: &generator) : nil
            return OperationSupervisor(configuration)
        }
    }

    // MARK: Adding

    /// Draws a random operation.
    func makeAddition(
        to supervisor: Int,
        parent: Int?,
        waitsForRoom: Bool = false,
        using generator: inout SplitMix64
    ) -> Addition {
        let number = state.withLock { state in
            state.nextNumber += 1
            return state.nextNumber
        }
        var addition = Addition(number: number, supervisor: supervisor, parent: parent)
        addition.options.priority = OperationPriority.allCases.randomElement(using: &generator) ?? .normal
        let available = parent.flatMap { self.addition($0)?.options.keys } ?? ["a", "b", "c"]
        for key in available.sorted() where generator.oneIn(3) { addition.options.keys.insert(key) }
        if generator.oneIn(4) {
            let jitter = Double.random(in: 0...1, using: &generator)
            addition.options.retry = RetryPolicy(initialDelay: .milliseconds(20), jitter: jitter)
        }
        if generator.oneIn(25) { addition.options.deadline = .milliseconds(Int.random(in: 1...200, using: &generator)) }
        let count = [0, 0, 0, 1, 2].randomElement(using: &generator) ?? 0
        for entry in anyEntries(count, using: &generator) {
            let onlyWaits = generator.oneIn(2)
            addition.dependencies.append((entry.addition.number, onlyWaits))
            addition.references.append(onlyWaits ? entry.handle.ending : entry.handle)
        }
        if parent == nil, !waitsForRoom {
            addition.isBarrier = generator.oneIn(10)
            if !addition.isBarrier, generator.oneIn(4) {
                addition.options.coalescingKey = generator.oneIn(2) ? "sync" : "vacuum"
                addition.options.deadline = nil
            }
        }
        // An operation with default options has no extras at first.
        if addition.options.keys.isEmpty, generator.oneIn(3) { addition.options = OperationOptions() }
        let drawn = addition
        state.withLock { state in
            state.additions[number] = drawn
            if drawn.options.deadline != nil { state.cancelled.insert(number) }
        }
        return addition
    }

    func register(_ addition: Addition, _ handle: OperationHandle<Int>) {
        traces.follow(handle.record, as: "record \(addition.number) \(addition.options.coalescingKey as Any)")
        state.withLock { state in
            state.additions[addition.number] = addition
            state.entries[addition.number] = Entry(addition: addition, handle: handle)
        }
    }

    func addDependency(of dependent: Int, on other: Int, onlyWaits: Bool) {
        state.withLock { state in
            state.additions[dependent]?.dependencies.append((other, onlyWaits))
            state.entries[dependent]?.addition.dependencies.append((other, onlyWaits))
        }
    }

    func removeDependencies(of dependent: Int, on other: Int) {
        // The record stays, because the dependency may have ended the dependent before it was removed.
        state.withLock { state in state.additions[dependent]?.dependencies.removeAll { $0.number == other } }
    }

    func forget(_ addition: Addition) { state.withLock { $0.additions[addition.number] = nil } }

    // MARK: Inspecting

    var entries: [Entry] { state.withLock { $0.entries.values.sorted { $0.addition.number < $1.addition.number } } }
    var complaints: [String] { state.withLock { $0.complaints } }
    var counts: Counts { state.withLock { $0.counts } }
    func run(of number: Int) -> Run? { state.withLock { $0.runs[number] } }
    func addition(_ number: Int) -> Addition? { state.withLock { $0.additions[number] } }
    func supervisor(of number: Int) -> Int { addition(number)?.supervisor ?? 0 }
    func isUncooperative(_ number: Int) -> Bool { state.withLock { $0.uncooperative.contains(number) } }

    func anyEntries(_ count: Int, using generator: inout SplitMix64) -> ArraySlice<Entry> {
        guard count > 0 else { return [] }
        return entries.shuffled(using: &generator).prefix(count)
    }

    func anyHandle(using generator: inout SplitMix64) -> OperationHandle<Int>? {
        entries.randomElement(using: &generator)?.handle
    }

    func count(_ field: any WritableKeyPath<Counts, Int> & Sendable, by number: Int = 1) {
        state.withLock { $0.counts[keyPath: field] += number }
    }

    func complain(_ number: Int, _ what: String) { state.withLock { $0.complaints.append("\(number) \(what)") } }

    // MARK: Cancelling

    func willCancel(_ number: Int) { state.withLock { _ = $0.cancelled.insert(number) } }
    func willCancelAll(of supervisor: Int) { state.withLock { _ = $0.cancelledSupervisors.insert(supervisor) } }
    func didWriteOff(_ ids: Set<OperationID>) { state.withLock { $0.writtenOff.formUnion(ids) } }
    func isWrittenOff(_ number: Int) -> Bool {
        state.withLock { state in
            state.entries[number].map { state.writtenOff.contains($0.handle.id) } ?? false
        }
    }
    func makeUncooperative(_ number: Int) { state.withLock { _ = $0.uncooperative.insert(number) } }

    /// Whether the operation, an operation that joined it or an ancestor was cancelled, or an ancestor failed.
    func mayBeCancelled(_ number: Int) -> Bool {
        state.withLock { state in
            var current: Int? = number
            while let now = current, let addition = state.additions[now] {
                if state.cancelledSupervisors.contains(addition.supervisor) || state.cancelled.contains(now) {
                    return true
                }
                if now != number, state.runs[now]?.hasFailed == true { return true }
                if let key = addition.options.coalescingKey,
                    state.cancelled.contains(where: { state.additions[$0]?.options.coalescingKey == key })
                {
                    return true
                }
                current = addition.parent
            }
            return false
        }
    }

    func isParentCancelled(_ number: Int) -> Bool {
        let parent = addition(number)?.parent.flatMap { parent in state.withLock { $0.entries[parent] } }
        // A handle that joined an operation doesn't cancel it as long as another handle needs it.
        guard let parent, parent.addition.options.coalescingKey == nil else { return false }
        return parent.handle.record.isCancellationRequested
    }

    // MARK: Running

    func update(_ number: Int, _ change: (inout Run) -> String?) {
        state.withLock { state in
            var run = state.runs[number] ?? Run()
            let complaint = change(&run)
            state.runs[number] = run
            if let complaint { state.complaints.append("\(number) \(complaint)") }
        }
    }
}
