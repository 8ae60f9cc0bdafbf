import DequeModule

/// The barriers, and the sections of operations between them.
///
/// An operation is added to the last section, which the next barrier closes. Operations may start in *open* sections: in
/// the first one, and in each later one if all barriers before it have ended.
struct Barriers: Sendable {
    private struct Section {
        /// The number of operations in it that haven't ended, not counting the barrier.
        var liveCount = 0
        /// The barrier at its end, until the barrier has ended.
        var barrier: QueueEntry?
        var isBarrierOpen = false
        /// The operations that were added while the section was closed.
        var closedOut: [QueueEntry] = []
    }

    private var sections: Deque<Section> = [Section()]
    /// The number of the first section.
    private var base: UInt32 = 0
    private var openCount = 1

    /// The number of the last section, to which operations are added.
    var last: UInt32 { base &+ UInt32(sections.count - 1) }

    /// Adds an operation to the last section, which a barrier closes.
    ///
    /// - Returns: The section's number, and whether the operation may start as far as barriers are concerned.
    mutating func join(_ candidate: QueueEntry, isBarrier: Bool) -> (section: UInt32, isOpen: Bool) {
        let number = last
        let index = sections.count - 1
        guard isBarrier else {
            sections[index].liveCount += 1
            let isOpen = index < openCount
            if !isOpen { sections[index].closedOut.append(candidate) }
            return (number, isOpen)
        }
        sections[index].barrier = candidate
        let isOpen = index == 0 && sections[0].liveCount == 0
        sections[index].isBarrierOpen = isOpen
        sections.append(Section())
        return (number, isOpen)
    }

    /// Removes an operation that has ended.
    ///
    /// - Returns: The operations that may start now as far as barriers are concerned; some may have ended meanwhile.
    mutating func leave(_ number: UInt32, isBarrier: Bool) -> [QueueEntry] {
        let index = Int(number &- base)
        if isBarrier { sections[index].barrier = nil } else { sections[index].liveCount -= 1 }
        guard sections.count > 1 else { return [] }
        var opened: [QueueEntry] = []
        while openCount < sections.count, sections[openCount - 1].barrier == nil {
            opened += sections[openCount].closedOut
            sections[openCount].closedOut = []
            openCount += 1
        }
        while openCount > 1, sections[0].liveCount == 0 {
            sections.removeFirst()
            base &+= 1
            openCount -= 1
        }
        if openCount == 1, sections[0].liveCount == 0, let barrier = sections[0].barrier, !sections[0].isBarrierOpen {
            sections[0].isBarrierOpen = true
            opened.append(barrier)
        }
        return opened
    }

    /// Returns the nearest unfinished barrier before a section.
    func barrier(before number: UInt32) -> QueueEntry? {
        var index = Int(number &- base)
        while index > 0 {
            index -= 1
            if let barrier = sections[index].barrier { return barrier }
        }
        return nil
    }
}
