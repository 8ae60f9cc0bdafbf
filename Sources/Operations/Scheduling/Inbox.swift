import Synchronization
import ThreadSupport

/// Operations that were added while none could start, until somebody takes them in.
///
/// Whoever adds to a busy supervisor would wait for the scheduler's lock, and its workers for whoever adds. So operations
/// that depend on nothing and are as usual, but for a lower priority perhaps, are left here. They are taken in together:
/// before anybody looks at or changes what stands under the lock, and by a worker that has a place to give and nothing
/// better for it. Nobody can tell the difference.
///
/// Its lock is taken while the scheduler's is held, never the other way round.
final class Inbox: Sendable {
    /// So that taking in doesn't take long.
    private static let capacity = 8

    private struct Contents {
        var isOpen = false
        var records: [OperationRecord] = []
    }

    private let contents = Locked(Contents())
    private let isFilled = Atomic(false)

    /// Leaves an operation here.
    ///
    /// Returns whether that was possible; else it goes to the scheduler itself.
    func put(_ record: OperationRecord) -> Bool {
        contents.withLock { contents in
            guard contents.isOpen, contents.records.count < Self.capacity else { return false }
            record.id = .next()
            if contents.records.isEmpty { contents.records.reserveCapacity(Self.capacity) }
            contents.records.append(record)
            isFilled.store(true, ordering: .releasing)
            return true
        }
    }

    /// Takes everything out.
    func takeAll() -> [OperationRecord] {
        guard isFilled.load(ordering: .acquiring) else { return [] }
        return contents.withLock { contents in takeAll(&contents) }
    }

    /// Opens or closes it, and takes everything out.
    func setOpen(_ isOpen: Bool) -> [OperationRecord] {
        contents.withLock { contents in
            contents.isOpen = isOpen
            return takeAll(&contents)
        }
    }

    private func takeAll(_ contents: inout Contents) -> [OperationRecord] {
        isFilled.store(false, ordering: .releasing)
        let records = contents.records
        contents.records = []
        return records
    }
}
