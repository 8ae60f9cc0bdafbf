import DequeModule

/// The epochs between barriers.
///
/// An operation is added to the last epoch, which the next barrier closes. Operations may start in *open* epochs: in
/// the first one, and in each later one if all barriers before it have ended.
struct Epochs: Sendable {
    private struct Epoch {
        /// The number of operations in it that haven't ended, not counting the barrier.
        var liveCount = 0
        /// The barrier at its end, until the barrier has ended.
        var barrier: Candidate?
        var isBarrierOpen = false
        /// The operations that were added while the epoch was closed.
        var closedOut: [Candidate] = []
    }

    private var epochs: Deque<Epoch> = [Epoch()]
    /// The number of the first epoch.
    private var base: UInt32 = 0
    private var openCount = 1

    /// The number of the last epoch, to which operations are added.
    var last: UInt32 { base &+ UInt32(epochs.count - 1) }

    /// Whether all epochs are open, because every barrier has ended.
    var areOpen: Bool { openCount == epochs.count }

    /// Adds an operation to the last epoch, which a barrier closes.
    ///
    /// - Returns: The epoch's number, and whether the operation may start as far as barriers are concerned.
    mutating func join(_ candidate: Candidate, isBarrier: Bool) -> (epoch: UInt32, isOpen: Bool) {
        let number = last
        let index = epochs.count - 1
        guard isBarrier else {
            epochs[index].liveCount += 1
            let isOpen = index < openCount
            if !isOpen { epochs[index].closedOut.append(candidate) }
            return (number, isOpen)
        }
        epochs[index].barrier = candidate
        let isOpen = index == 0 && epochs[0].liveCount == 0
        epochs[index].isBarrierOpen = isOpen
        epochs.append(Epoch())
        return (number, isOpen)
    }

    /// Removes an operation that has ended.
    ///
    /// - Returns: The operations that may start now as far as barriers are concerned; some may have ended meanwhile.
    mutating func leave(_ number: UInt32, isBarrier: Bool) -> [Candidate] {
        let index = Int(number &- base)
        if isBarrier { epochs[index].barrier = nil } else { epochs[index].liveCount -= 1 }
        guard epochs.count > 1 else { return [] }
        var opened: [Candidate] = []
        while openCount < epochs.count, epochs[openCount - 1].barrier == nil {
            opened += epochs[openCount].closedOut
            epochs[openCount].closedOut = []
            openCount += 1
        }
        while openCount > 1, epochs[0].liveCount == 0 {
            epochs.removeFirst()
            base &+= 1
            openCount -= 1
        }
        if openCount == 1, epochs[0].liveCount == 0, let barrier = epochs[0].barrier, !epochs[0].isBarrierOpen {
            epochs[0].isBarrierOpen = true
            opened.append(barrier)
        }
        return opened
    }

    /// Returns the nearest unfinished barrier before an epoch.
    func barrier(before number: UInt32) -> Candidate? {
        var index = Int(number &- base)
        while index > 0 {
            index -= 1
            if let barrier = epochs[index].barrier { return barrier }
        }
        return nil
    }
}
