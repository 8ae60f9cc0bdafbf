import Foundation
import Operations

/// Checks, before anything is created on the remote, that a store can be synchronized record by record.
///
/// A store that this device has synchronized isn't checked again unless it's empty, and a missing one may be downloaded.
actor DatabaseCheckOperation: Operation {
    private let request: SynchronizationRequest
    private let key: DocumentKey
    private let state: StateDirectory

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: The store.
    ///   - key: The document.
    ///   - state: This device's memory.
    init(_ request: SynchronizationRequest, of key: DocumentKey, state: StateDirectory) {
        self.request = request
        self.key = key
        self.state = state
    }

    func main(_ context: OperationContext) async throws {
        try await context.blocking { [request, key, state] in
            try request.checkApp()
            let store = try LocalStore(request.url)
            // With a new replica, an empty file would be taken for the store of an app that has removed all its tables.
            guard try store.exists, try store.byteCount == 0 || !state.hasSynchronized(key) else { return }
            try StoreSnapshot.checkDatabase(store)
            for path in request.isPreview ? [] : [store.url.path, store.directory.path] where access(path, W_OK) != 0 {
                throw StoreSyncError(writing: path, errno: errno)
            }
        }
    }
}

extension StateDirectory {
    /// Whether this device has synchronized a document record by record.
    func hasSynchronized(_ key: DocumentKey) throws -> Bool {
        guard let integrityKey = try integrityKey(for: key) else { return false }
        return try synchronization(of: key, integrityKey) != nil
    }
}
