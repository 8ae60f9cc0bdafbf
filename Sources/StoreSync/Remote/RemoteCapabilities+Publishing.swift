import RemoteStorage

extension RemoteCapabilities {
    /// Refuses a storage on which two devices could publish a file at the same path.
    ///
    /// - Parameter identity: The backend's identity.
    /// - Throws: ``StoreSyncError`` with `unsupportedStorage`.
    func requireExclusiveCreate(at identity: String) throws {
        guard !contains(.exclusiveCreate) else { return }
        throw StoreSyncError(
            .unsupportedStorage,
            """
            \(identity) can't create a file exclusively, so nothing can be published there safely. If the server or the \
            network was faulty just now, try again.
            """
        )
    }
}
