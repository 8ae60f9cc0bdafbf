import ThreadSupport

/// The operations that were added and haven't ended, so that nobody adds one twice.
enum LiveOperations {
    /// Several tables, so that supervisors that add at the same time seldom wait for each other.
    private static let shards = (0..<16).map { _ in Locked(AddressSet()) }

    static func insert(_ operation: any Operation) {
        let address = address(of: operation)
        let isNew = shard(of: address).withLock { $0.insert(address) }
        precondition(isNew, "the same \(type(of: operation)) was added twice; make another one for each run")
    }

    static func remove(_ operation: AnyObject) {
        let address = address(of: operation)
        shard(of: address).withLock { $0.remove(address) }
    }

    private static func address(of operation: AnyObject) -> UInt {
        UInt(bitPattern: Unmanaged.passUnretained(operation).toOpaque())
    }

    private static func shard(of address: UInt) -> Locked<AddressSet> {
        shards[Int(AddressSet.hash(address) >> 60)]
    }
}

/// A set of objects' addresses: every operation goes through it twice, at a third of what `Set` would take.
///
/// Open addressing with linear probing; removing closes the gap (Knuth, TAOCP 3, 6.4, algorithm R).
struct AddressSet: Sendable {
    private var slots = ContiguousArray<UInt>(repeating: 0, count: 16)
    private(set) var count = 0

    /// Spreads pages, so that operations that were made together stand together.
    static func hash(_ address: UInt) -> UInt { (address >> 12) &* 0x9E37_79B9_7F4A_7C15 }

    private func home(of address: UInt) -> Int {
        Int(truncatingIfNeeded: (Self.hash(address) >> 20) &+ (address >> 4)) & (slots.count - 1)
    }

    private func next(_ index: Int) -> Int { (index + 1) & (slots.count - 1) }

    /// Returns whether the address is new.
    mutating func insert(_ address: UInt) -> Bool {
        if (count + 1) * 4 > slots.count * 3 { resize(to: slots.count * 2) }
        var index = home(of: address)
        while slots[index] != 0 {
            if slots[index] == address { return false }
            index = next(index)
        }
        slots[index] = address
        count += 1
        return true
    }

    mutating func remove(_ address: UInt) {
        var gap = home(of: address)
        while slots[gap] != address {
            guard slots[gap] != 0 else { return }
            gap = next(gap)
        }
        slots[gap] = 0
        count -= 1
        var index = next(gap)
        while slots[index] != 0 {
            // Whoever stands behind the gap and belongs before it moves into it.
            let distance = (index - home(of: slots[index])) & (slots.count - 1)
            if distance >= (index - gap) & (slots.count - 1) {
                slots.swapAt(gap, index)
                gap = index
            }
            index = next(index)
        }
        if slots.count > 64, count * 8 < slots.count { resize(to: slots.count / 2) }
    }

    private mutating func resize(to size: Int) {
        let former = slots
        slots = ContiguousArray(repeating: 0, count: size)
        count = 0
        for address in former where address != 0 { _ = insert(address) }
    }
}
