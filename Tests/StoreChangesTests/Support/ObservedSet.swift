import Synchronization

@testable import StoreChanges

/// A change set that runs something when its bytes are read for the first time, as another process may do then.
final class ObservedSet: ChangeSetSource {
    private let content: SyncChangeSet
    private let body: Mutex<(@Sendable () throws -> Void)?>

    init(_ set: SyncChangeSet, _ body: @escaping @Sendable () throws -> Void) {
        content = set
        self.body = Mutex(body)
    }

    var header: SyncChangeSet.Header { content.header }

    var encoded: [UInt8] {
        get throws {
            try body.withLock { $0.take() }?()
            return content.encoded
        }
    }
}
