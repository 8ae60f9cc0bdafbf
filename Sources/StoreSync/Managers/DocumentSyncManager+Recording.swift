public import Foundation
package import GRDB
import StoreChanges

extension DocumentSyncManager {
    /// Records what the user has changed in a store, without the remote: the next synchronization publishes it.
    ///
    /// Edits that are recorded apart are merged apart, so that each has the time at which it was recorded. This device must
    /// have synchronized the store before.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    /// - Returns: The number of edits.
    /// - Throws: ``StoreSyncError``: `storeNotFound` if the store was never synchronized with this document, or is a copy or a
    ///   backup, `massDeletion` if too many rows are gone, `remoteUnavailable` if edits of other devices have to arrive first,
    ///   `busy` if another process writes the store, or has just begun to synchronize it as another client.
    @discardableResult
    public func recordChanges(ofStoreAt url: URL, allowsDeletions: Bool = false) async throws -> Int {
        try await recordChanges(ofStoreAt: url, through: nil, allowsDeletions: allowsDeletions)
    }

    /// Records what the user has changed in a store, which is written through the app's connection, if there is one.
    package func recordChanges(
        ofStoreAt url: URL,
        through app: (any DatabaseWriter)?,
        allowsDeletions: Bool
    ) async throws -> Int {
        try await manager.state.withSynchronizedStore(at: url, of: .of(manager.documentKey(document)), through: app) {
            store in
            // Nothing arrives. The store gets a token, by which a backup from before is told.
            let outcome = try store.synchronize(with: [], allowsDeletions: allowsDeletions)
            if let missing = outcome.missing { throw StoreChangesError(missing) }
            return outcome.captured.reduce(0) { $0 + $1.changeCount }
        }
    }
}
