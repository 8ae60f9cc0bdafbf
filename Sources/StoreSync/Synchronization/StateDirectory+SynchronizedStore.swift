import Foundation
import GRDB
import RemoteStorage
import StoreChanges
import ThreadSupport

extension StateDirectory {
    /// Calls `body` with a store that this device has synchronized, without the remote.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - document: The document that it has to belong to; `nil` for any.
    ///   - app: The app's connection to the store, through which the store is written; `nil` for a connection of its own.
    ///   - body: Uses the store.
    /// - Returns: What `body` returns.
    /// - Throws: ``StoreSyncError``, with `storeNotFound` if the store doesn't exist or was never synchronized.
    func withSynchronizedStore<Result: Sendable>(
        at url: URL,
        of document: RemoteIdentifier? = nil,
        through app: (any DatabaseWriter)?,
        _ body: @escaping @Sendable (SynchronizedStore) throws -> Result
    ) async throws -> Result {
        try await runBlocking(on: nil) { [self] in
            do {
                if let app { try StoreConnection.check(app) }
                guard let replica = try SynchronizedStore.replica(ofStoreAt: url, among: replicas()),
                    document.map({ $0.rawValue == replica.identity.document }) ?? true
                else {
                    let what = document.map { "synchronized with \($0)" } ?? "synchronized"
                    throw StoreSyncError(
                        .storeNotFound,
                        """
                        \(url.path) was never \(what) on this device, or is a copy or a backup. Synchronize it first, or name \
                        its state directory.
                        """
                    )
                }
                let options = SynchronizedStore.Options(app: app, now: now)
                return try body(
                    SynchronizedStore(storeAt: url, replicaAt: replica.url, replica.identity, options: options)
                )
            } catch let error as StoreChangesError {
                throw StoreSyncError(error)
            }
        }
    }
}
