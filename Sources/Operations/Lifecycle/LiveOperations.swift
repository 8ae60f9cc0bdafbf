import ThreadSupport

/// The operations that were added and haven't ended, so that nobody adds one twice.
enum LiveOperations {
    private static let all = Locked<Set<ObjectIdentifier>>([])

    static func insert(_ operation: any Operation) {
        let key = ObjectIdentifier(operation)
        let isNew = all.withLock { $0.insert(key).inserted }
        precondition(isNew, "the same \(type(of: operation)) was added twice; make another one for each run")
    }

    static func remove(_ operation: AnyObject) {
        let key = ObjectIdentifier(operation)
        _ = all.withLock { $0.remove(key) != nil }
    }
}
