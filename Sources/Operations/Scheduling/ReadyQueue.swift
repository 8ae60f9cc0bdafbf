import DequeModule
import HeapModule

/// An operation's entry in a queue: it is stale once another operation has the position.
struct QueueEntry: Hashable, Comparable, Sendable {
    var id: OperationID
    var position: UInt32

    init(_ id: OperationID, _ position: UInt32) {
        self.id = id
        self.position = position
    }

    /// Orders by age, oldest first.
    static func < (lhs: Self, rhs: Self) -> Bool { lhs.id < rhs.id }
}

/// The operations that could be granted a slot, by priority and age.
///
/// A stale entry stays in the queue until it is the first of its priority. The scheduler drops it before a grant.
struct ReadyQueue: Sendable {
    /// The first operation of one priority.
    struct Head {
        var candidate: QueueEntry
        var priority: OperationPriority

        func isServedBefore(_ other: Head) -> Bool {
            priority == other.priority ? candidate < other.candidate : priority > other.priority
        }
    }

    /// The operations of one priority.
    ///
    /// Most are inserted in the order of their age; the others go into a heap.
    private struct Lane: Sendable {
        var inOrder = Deque<QueueEntry>()
        var late = Heap<QueueEntry>()

        var first: QueueEntry? {
            guard let late = late.min else { return inOrder.first }
            return inOrder.first.map { min($0, late) } ?? late
        }

        mutating func insert(_ candidate: QueueEntry) {
            if let last = inOrder.last, last > candidate {
                late.insert(candidate)
            } else {
                inOrder.append(candidate)
            }
        }

        mutating func removeFirst() -> QueueEntry {
            guard let late = late.min else { return inOrder.removeFirst() }
            if let first = inOrder.first, first < late { return inOrder.removeFirst() }
            return self.late.removeMin()
        }
    }

    private var lanes: [Lane] = OperationPriority.allCases.map { _ in Lane() }
    /// One bit for each lane that isn't empty.
    private var filled: UInt8 = 0

    mutating func insert(_ candidate: QueueEntry, _ priority: OperationPriority) {
        lanes[Int(priority.rawValue)].insert(candidate)
        filled |= 1 << priority.rawValue
    }

    var isEmpty: Bool { filled == 0 }

    /// The priorities for which there are operations, as bits.
    var filledPriorities: UInt8 { filled }

    func first(of priority: OperationPriority) -> QueueEntry? { lanes[Int(priority.rawValue)].first }

    /// The first operation of the highest priority in the queue.
    var head: Head? {
        guard filled != 0 else { return nil }
        let lane = 7 - filled.leadingZeroBitCount
        guard let candidate = lanes[lane].first, let priority = OperationPriority(rawValue: UInt8(lane)) else {
            return nil
        }
        return Head(candidate: candidate, priority: priority)
    }

    /// The oldest operation of all lanes.
    var oldest: Head? {
        let heads = OperationPriority.allCases.compactMap { priority in
            first(of: priority).map { Head(candidate: $0, priority: priority) }
        }
        return heads.min { $0.candidate < $1.candidate }
    }

    /// Removes and returns the head, or the oldest operation.
    mutating func remove(oldest takesOldest: Bool) -> QueueEntry {
        guard let found = takesOldest ? oldest : head else { preconditionFailure("took from an empty queue") }
        return removeFirst(of: found.priority)
    }

    @discardableResult
    mutating func removeFirst(of priority: OperationPriority) -> QueueEntry {
        let first = lanes[Int(priority.rawValue)].removeFirst()
        if lanes[Int(priority.rawValue)].first == nil { filled &= ~(1 << priority.rawValue) }
        return first
    }
}
