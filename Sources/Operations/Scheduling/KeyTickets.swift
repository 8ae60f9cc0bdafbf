import DequeModule

/// The queues for the exclusion keys, one for each key, in the order in which operations were added.
///
/// An operation takes its tickets when it's added and keeps them until nothing of it runs any more, through
/// dependencies, pauses and retries. If it took them later, two operations could wait for each other. Children wait in
/// separate queues, for the keys that their parent lends them. So they go before unrelated operations that wait for the
/// parent's keys.
struct KeyTickets: Sendable {
    private struct Domain: Hashable {
        var parent: UInt32?
        var key: ExclusionKey
    }

    private var queues: [Domain: Deque<QueueEntry>] = [:]

    /// Takes a ticket for an operation.
    ///
    /// Returns whether the operation is the first in the queue.
    mutating func join(_ candidate: QueueEntry, for key: ExclusionKey, of parent: UInt32?) -> Bool {
        let domain = Domain(parent: parent, key: key)
        queues[domain, default: []].append(candidate)
        return queues[domain]?.count == 1
    }

    /// Discards an operation's ticket.
    ///
    /// Returns the operation that has become the first in the queue, if the former first one left.
    mutating func leave(_ candidate: QueueEntry, for key: ExclusionKey, of parent: UInt32?) -> QueueEntry? {
        let domain = Domain(parent: parent, key: key)
        guard queues[domain]?.remove(candidate) == 0 else { return nil }
        if let next = queues[domain]?.first { return next }
        queues[domain] = nil
        return nil
    }

    /// Returns the operation directly before this one in the queue.
    func predecessor(of candidate: QueueEntry, for key: ExclusionKey, of parent: UInt32?) -> QueueEntry? {
        neighbor(of: candidate, offset: -1, in: Domain(parent: parent, key: key))
    }

    /// Returns the operation directly after this one in the queue.
    func successor(of candidate: QueueEntry, for key: ExclusionKey, of parent: UInt32?) -> QueueEntry? {
        neighbor(of: candidate, offset: 1, in: Domain(parent: parent, key: key))
    }

    private func neighbor(of candidate: QueueEntry, offset: Int, in domain: Domain) -> QueueEntry? {
        guard let queue = queues[domain], let index = queue.index(of: candidate),
            queue.indices.contains(index + offset)
        else { return nil }
        return queue[index + offset]
    }
}

extension Deque<QueueEntry> {
    /// Removes an element from the queue, which is sorted by age.
    ///
    /// Returns the index that it had, if it was there.
    @discardableResult
    mutating func remove(_ candidate: QueueEntry) -> Int? {
        guard let index = index(of: candidate) else { return nil }
        remove(at: index)
        return index
    }

    /// Returns the index of an element in the queue, which is sorted by age.
    fileprivate func index(of candidate: QueueEntry) -> Int? {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < candidate { low = middle + 1 } else { high = middle }
        }
        return low < endIndex && self[low] == candidate ? low : nil
    }
}
