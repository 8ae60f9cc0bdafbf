/// The right to end one operation: the compiler sees that it's used at most once, `deinit` that it's used.
struct OperationEnding: ~Copyable, Sendable {
    // Unmanaged, because `discard self` needs fields that need no cleaning up; `end` and `deinit` balance the retain.
    private let record: Unmanaged<OperationRecord>

    init(_ record: OperationRecord) {
        self.record = Unmanaged.passRetained(record)
    }

    /// Nothing of the operation runs any more; its result is in place.
    ///
    /// - Parameter keepsOperation: Whether the caller has the operation in hand and takes it out of ``LiveOperations``.
    consuming func end(keepsOperation: Bool = false) {
        let record = record.takeRetainedValue()
        discard self
        record.core.end(record, keepsOperation: keepsOperation)
    }

    deinit {
        let id = record.takeRetainedValue().id
        precondition(id.rawValue == .max, "operation \(id) was dropped without an ending")
    }
}
