import ThreadSupport

/// The operations that were added and haven't ended, to detect an operation that is added twice.
enum LiveOperations {
    /// Several sets, so that supervisors that add at the same time rarely contend for a lock.
    private static let shards = (0..<16).map { _ in Locked(Set<ObjectIdentifier>()) }

    static func insert(_ operation: any Operation) {
        let identifier = ObjectIdentifier(operation)
        let isNew = shard(of: identifier).withLock { $0.insert(identifier).inserted }
        precondition(isNew, "the same \(type(of: operation)) was added twice; create a new one for each run")
    }

    static func remove(_ operation: AnyObject) {
        let identifier = ObjectIdentifier(operation)
        _ = shard(of: identifier).withLock { $0.remove(identifier) }
    }

    /// Operations are allocated in multiples of 16 bytes, so the lowest four bits of their addresses are equal.
    private static func shard(of identifier: ObjectIdentifier) -> Locked<Set<ObjectIdentifier>> {
        shards[Int(UInt(bitPattern: identifier) >> 4 & 15)]
    }
}
