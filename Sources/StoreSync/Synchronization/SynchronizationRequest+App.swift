import StoreChanges

extension SynchronizationRequest {
    /// Checks that the store can be written through the app's connection, if there is one.
    ///
    /// - Throws: ``StoreSyncError``.
    func checkApp() throws {
        guard let app else { return }
        try StoreSyncError.translating { try StoreConnection.check(app) }
    }
}
