import DequeModule

/// Who waits for which exclusion key: one queue for each, in the order in which operations were added.
///
/// A ticket is taken when the operation is added and kept until nothing of it runs any more, through dependencies, pauses
/// and retries; taken any later, two operations could each wait for the other. Children wait in queues of their own, for
/// the keys that their parent lends them, and so pass strangers who wait for the parent's keys.
struct KeyTickets: Sendable {
    private struct Domain: Hashable {
        var parent: UInt32?
        var key: ExclusionKey
    }

    private var queues: [Domain: Deque<Candidate>] = [:]

    /// Takes a ticket.
    ///
    /// Returns whether it's the first one.
    mutating func join(_ candidate: Candidate, for key: ExclusionKey, of parent: UInt32?) -> Bool {
        let domain = Domain(parent: parent, key: key)
        queues[domain, default: []].append(candidate)
        return queues[domain]?.count == 1
    }

    /// Gives a ticket back.
    ///
    /// Returns who is first now in its place.
    mutating func leave(_ candidate: Candidate, for key: ExclusionKey, of parent: UInt32?) -> Candidate? {
        let domain = Domain(parent: parent, key: key)
        guard let index = queues[domain]?.index(of: candidate) else { return nil }
        queues[domain]?.remove(at: index)
        guard index == 0 else { return nil }
        if let next = queues[domain]?.first { return next }
        queues[domain] = nil
        return nil
    }

    /// Who stands next before it.
    func predecessor(of candidate: Candidate, for key: ExclusionKey, of parent: UInt32?) -> Candidate? {
        guard let queue = queues[Domain(parent: parent, key: key)], let index = queue.index(of: candidate) else {
            return nil
        }
        return index == 0 ? nil : queue[index - 1]
    }
}

extension Deque<Candidate> {
    /// Where an element stands in the queue, which is in the order of age.
    fileprivate func index(of candidate: Candidate) -> Int? {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < candidate { low = middle + 1 } else { high = middle }
        }
        return low < endIndex && self[low] == candidate ? low : nil
    }
}
