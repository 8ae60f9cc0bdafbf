import RemoteStorage

extension RemoteBackend {
    /// The clients that are registered with a document, or were.
    ///
    /// A client has a directory for changes. Services that replicate a folder don't carry it while it's empty, so a client
    /// counts also by a head, the time of its last sync, or an upload.
    ///
    /// - Parameter document: The document.
    /// - Returns: The clients, removed ones among them.
    /// - Throws: What the hooks throw.
    func clients(of document: DocumentHierarchy) async throws -> Set<RemoteIdentifier> {
        async let directories = documentRegistrationHooks.listClients(document)
        async let files = synchronizationHooks.listSyncHeads(document)
        async let uploading = wholeStoreDownloadHooks.listUploadingClients(document)
        let synchronized = try await files.compactMap { name in
            SyncHeadName(name)?.client ?? DocumentHierarchy.client(ofRecentSyncNamed: name)
        }
        return try await Set(directories + synchronized + uploading)
    }
}
