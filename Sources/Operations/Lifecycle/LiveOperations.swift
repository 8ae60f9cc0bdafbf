/// The operations that were added and haven't ended, to detect an operation that is added twice.
enum LiveOperations {
    private static let addresses = AddressSet()

    static func insert(_ operation: some Operation) {
        guard !addresses.insert(UInt(bitPattern: ObjectIdentifier(operation))) else { return }
        preconditionFailure("the same \(type(of: operation)) was added twice; create a new one for each run")
    }

    static func remove(_ operation: AnyObject) {
        addresses.remove(UInt(bitPattern: ObjectIdentifier(operation)))
    }
}
