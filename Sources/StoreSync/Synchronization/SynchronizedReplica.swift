import Foundation
import Operations
import StoreChanges

/// The replica of a store, opened for each use on the executor for blocking work.
struct SynchronizedReplica: Sendable {
    /// Where the document's change sets begin.
    let origin: SyncOrigin
    let store: URL
    let url: URL
    let identity: SynchronizedStore.Identity
    let options: SynchronizedStore.Options

    /// The same replica, of which another client captured a part.
    func opened(as client: ClientID) -> SynchronizedReplica {
        var identity = identity
        identity.client = client
        return SynchronizedReplica(origin: origin, store: store, url: url, identity: identity, options: options)
    }

    /// Whether this device has the replica.
    func exists(_ context: OperationContext) async throws -> Bool {
        try await context.blocking { try LocalFile.exists(url.path) }
    }

    /// Runs `body` with the open store.
    func using<Result: Sendable>(
        _ context: OperationContext,
        _ body: @escaping @Sendable (SynchronizedStore) throws -> Result
    ) async throws -> Result {
        try await context.blocking {
            try StoreSyncError.translating {
                try body(SynchronizedStore(storeAt: store, replicaAt: url, identity, options: options))
            }
        }
    }
}
