/// The right to end one operation: the compiler checks that it's used at most once, `deinit` that it's used.
struct OperationEnding: ~Copyable, Sendable {
    // Unmanaged, because `discard self` requires trivially destroyed fields. `end` and `deinit` balance the retain.
    private let record: Unmanaged<OperationRecord>

    init(_ record: OperationRecord) {
        self.record = Unmanaged.passRetained(record)
    }

    /// Ends the operation, of which nothing runs any more and whose result is stored, once its temporary directory is removed.
    consuming func end() async {
        let record = record.takeRetainedValue()
        discard self
        while let directory = record.core.withBoard({ $0.end(record) }) { await record.remove(directory) }
    }

    deinit {
        let id = record.takeRetainedValue().id
        // Always traps. The compiler warns about a `preconditionFailure`, because code that it adds could never run.
        precondition(id.rawValue == .max, "operation \(id) was dropped without an ending")
    }
}
