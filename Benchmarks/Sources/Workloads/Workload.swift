/// The work that the contenders do.
public enum Workload: String, CaseIterable, Sendable {
    /// Operations without dependencies, which run as they are added.
    case independent
    /// Each operation depends on the previous one. All are added before the first starts.
    case chain
    /// Layers of 300; each operation depends on three of the previous layer. All are added before the first starts.
    case layered
    /// One operation depends on all the others.
    case fanIn
    /// Five priorities in turn. All operations are added before the first starts.
    case priorities
    /// One operation adds all the others as its children, and ends after them.
    case children
    /// Everything is cancelled while it waits; measured from the cancellation until everything has ended.
    case cancelAll
    /// One task adds the operations while two threads cancel a quarter of them.
    case submitFromOneTask
    /// 64 tasks add the operations while two threads cancel a quarter of them.
    case submitFromTasks
    /// Eight threads add the operations while two threads cancel a quarter of them.
    case submitFromThreads
    /// Bytes of a waiting operation, with its handle.
    case memory
    /// Bytes of an operation that waits for the previous one, with its handle.
    case memoryOfChain
    /// A chain that is released, with its supervisor, while it waits.
    case chainDropped
    /// A chain whose head fails.
    case chainFailed
    /// One operation in a hundred is cancelled while it runs, which no other operation should notice.
    case falseCancellations
    /// MiB are sealed, uncompressed.
    case seal
    /// MiB are opened.
    case open

    /// The contenders that can run the workload.
    public var contenders: [Contender] {
        switch self {
        case .independent: [.operations, .operationQueue, .taskGroup, .taskGroupOfActors]
        case .chain, .layered, .fanIn, .priorities, .cancelAll: [.operations, .operationQueue, .taskGroup]
        case .submitFromOneTask, .submitFromTasks, .submitFromThreads, .memory, .memoryOfChain:
            [.operations, .operationQueue]
        case .children, .chainDropped, .chainFailed, .falseCancellations: [.operations]
        case .seal: [.allCores, .oneCore, .sodium, .sodiumWithDigest]
        // Opening digests nothing.
        case .open: [.allCores, .oneCore, .sodium]
        }
    }

    /// The dependencies of an operation, in the workloads that are graphs.
    func dependencies(of index: Int, count: Int) -> Dependencies {
        switch self {
        case .chain, .memoryOfChain: Dependencies(first: index - 1, count: index == 0 ? 0 : 1)
        case .layered: Dependencies(layered: index)
        case .fanIn: Dependencies(first: 0, count: index == count - 1 ? index : 0)
        default: Dependencies(first: 0, count: 0)
        }
    }
}

/// The implementation that runs a workload.
public enum Contender: String, CaseIterable, Sendable {
    /// The library's supervisor.
    case operations
    /// Foundation's queue.
    case operationQueue
    /// A discarding task group whose tasks go through one actor, which also tracks which tasks wait for which.
    case taskGroup
    /// A discarding task group whose tasks each have their own actor, just as each operation is an actor.
    case taskGroupOfActors
    /// The library, with a worker for each core.
    case allCores
    /// The library, with one worker.
    case oneCore
    /// libsodium's cipher, one call for each MiB.
    case sodium
    /// libsodium's cipher, and then its digest of the plaintext.
    case sodiumWithDigest
}

/// The result of a workload.
public struct Measurement: Sendable {
    /// The time it took.
    public var seconds: Double
    /// The other measured values, by name.
    public var values: [String: Double] = [:]

    init(_ duration: Duration, _ values: [String: Double] = [:]) {
        seconds = duration / .seconds(1)
        self.values = values
    }
}

/// Successive indices in a ring, without an array, whose cost would count against the contenders.
struct Dependencies: Sequence {
    private static let layerWidth = 300

    private var base = 0
    private var first: Int
    private var ring = Int.max
    let count: Int

    init(first: Int, count: Int) {
        self.first = first
        self.count = count
    }

    init(layered index: Int) {
        let (layer, place) = index.quotientAndRemainder(dividingBy: Self.layerWidth)
        base = (layer - 1) * Self.layerWidth
        first = place
        ring = Self.layerWidth
        count = layer == 0 ? 0 : 3
    }

    var underestimatedCount: Int { count }

    func makeIterator() -> some IteratorProtocol<Int> {
        (0..<count).lazy.map { [base, first, ring] in base + (first + $0) % ring }.makeIterator()
    }
}
