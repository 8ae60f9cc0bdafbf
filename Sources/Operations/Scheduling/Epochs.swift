import DequeModule

/// The stretches between barriers.
///
/// An operation belongs to the last one when it's added; a barrier closes it. Operations may start in the stretches that
/// are *open*: the first, and those behind it for as long as the barriers between have ended.
struct Epochs: Sendable {
    private struct Epoch {
        /// Operations in it that haven't ended, the barrier not counted.
        var liveCount = 0
        /// The barrier at its end, until that has ended.
        var barrier: Candidate?
        var isBarrierOpen = false
        /// Operations that were added while it was closed.
        var closedOut: [Candidate] = []
    }

    private var epochs: Deque<Epoch> = [Epoch()]
    /// The number of the first.
    private var base: UInt32 = 0
    private var openCount = 1

    /// The number of the last one, to which operations are added.
    var last: UInt32 { base &+ UInt32(epochs.count - 1) }

    /// Whether no barrier is there that hasn't ended.
    var areOpen: Bool { openCount == epochs.count }

    /// An operation is added.
    ///
    /// - Returns: Where it belongs, and whether it may start as far as barriers are concerned.
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

    /// An operation has ended.
    ///
    /// - Returns: Those that may start now as far as barriers are concerned; some may have ended meanwhile.
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

    /// The barrier that stands before an epoch.
    func barrier(before number: UInt32) -> Candidate? {
        var index = Int(number &- base)
        while index > 0 {
            index -= 1
            if let barrier = epochs[index].barrier { return barrier }
        }
        return nil
    }
}
