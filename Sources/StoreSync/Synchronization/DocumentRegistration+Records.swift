import Operations
import RemoteStorage

extension DocumentRegistration {
    /// Whether the document's devices merge records, instead of replacing whole stores.
    ///
    /// This device's memory comes first: a storage that hides the origin doesn't make it forget.
    func synchronizesRecords(
        _ backend: any RemoteBackend,
        _ state: StateDirectory,
        _ context: OperationContext
    ) async throws -> Bool {
        let key = application.key(backend, document)
        let isKnown = try await context.blocking { [integrityKey] in
            try state.synchronization(of: key, integrityKey) != nil
        }
        if isKnown { return true }
        let path = hierarchy.syncOrigin
        guard let origin = try await backend.synchronizationHooks.fetchSyncOrigin(hierarchy) else { return false }
        return (try? application.seal.open(origin, as: .syncOrigin(identity), at: path)) != nil
    }
}
