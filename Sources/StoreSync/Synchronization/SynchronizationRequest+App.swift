import StoreChanges

extension SynchronizationRequest {
    /// Checks that the store can be written through the app's connection, if there is one.
    ///
    /// - Throws: ``StoreSyncError``.
    func checkApp() throws {
        guard let app else { return }
        do {
            try StoreConnection.check(app)
        } catch let error as StoreChangesError {
            throw StoreSyncError(error)
        }
    }
}
