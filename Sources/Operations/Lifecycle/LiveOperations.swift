import ThreadSupport

/// The operations that were added and haven't ended, to detect an operation that is added twice.
enum LiveOperations {
    /// Several tables, so that supervisors that add at the same time rarely contend for a lock.
    private static let shards = (0..<16).map { _ in Locked(AddressSet()) }

    static func insert(_ operation: any Operation) {
        let address = address(of: operation)
        let isNew = shard(of: address).withLock { $0.insert(address) }
        precondition(isNew, "the same \(type(of: operation)) was added twice; create a new one for each run")
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

/// A set of object addresses, at a third of the cost of `Set`.
///
/// Every operation is inserted and removed once, so the cost matters. Open addressing with linear probing; removing closes
/// the gap (Knuth, TAOCP 3, 6.4, algorithm R).
struct AddressSet: Sendable {
    private var slots = ContiguousArray<UInt>(repeating: 0, count: 16)
    private(set) var count = 0

    /// Hashes the page of an address only, so that operations that were allocated together are neighbours in the table.
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
            // An address behind the gap moves into it if its home isn't behind the gap.
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
