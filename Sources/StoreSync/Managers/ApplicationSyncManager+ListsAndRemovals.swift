public import Operations
public import RemoteStorage

/// Lists of documents and clients, and removals. None of them registers this device.
extension ApplicationSyncManager {
    private var access: ApplicationAccess {
        ApplicationAccess(application, backend: backend, state: state, delegate: decision)
    }

    /// Lists the application's documents.
    ///
    /// ```swift
    /// for document in try await manager.listDocuments().value.documents {
    ///     print(document.document, document.description, document.lastSyncs.count)
    /// }
    /// ```
    ///
    /// Doesn't register this device, and changes nothing.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The list's handle.
    public func listDocuments(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<DocumentList> {
        supervisor.add(DocumentListOperation(access), after: dependencies, options: self.options(options))
    }

    /// Lists the clients of the application, or of one of its documents.
    ///
    /// ```swift
    /// for client in try await manager.listClients().value.clients {
    ///     if let lastSync = client.lastSync { print(client.description, lastSync) }
    /// }
    /// ```
    ///
    /// Doesn't register this device, and changes nothing.
    ///
    /// - Parameters:
    ///   - document: The document whose clients are listed, or `nil` for the application's.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The list's handle.
    public func listClients(
        of document: RemoteIdentifier? = nil,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<ClientList> {
        supervisor.add(
            ClientListOperation(of: document, access),
            after: dependencies,
            options: self.options(options, of: document)
        )
    }

    /// Removes a document for all devices: ask the user first.
    ///
    /// ```swift
    /// _ = try await manager.removeDocument(document).value
    /// ```
    ///
    /// Other devices that knew the document are told by ``StoreSyncError/Code/documentDeleted``. This device forgets what
    /// merging overwrote in it. Local stores stay.
    ///
    /// - Parameters:
    ///   - document: The document.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The removal's handle.
    public func removeDocument(
        _ document: RemoteIdentifier,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<DocumentRemoval> {
        supervisor.add(
            DocumentRemovalOperation(of: document, access),
            after: dependencies,
            options: self.options(options, of: document, locking: [.document(documentKey(document))])
        )
    }

    /// Removes all data of the application from the remote: ask the user first.
    ///
    /// ```swift
    /// _ = try await manager.removeApplication().value
    /// ```
    ///
    /// This device forgets the application, its keys, the items of its keychain, and what merging overwrote. Local stores
    /// stay.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The removal's handle.
    public func removeApplication(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<ApplicationRemoval> {
        supervisor.add(ApplicationRemovalOperation(access), after: dependencies, options: self.options(options))
    }

    /// Removes a client that isn't used any more from the application or from one of its documents.
    ///
    /// An upload of the client stays until another client's upload includes it.
    ///
    /// ```swift
    /// for client in try await manager.listClients().value.clients where client.description == "my old laptop" {
    ///     _ = try await manager.removeClient(client.client).value
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - client: The client, which must not be this device's.
    ///   - document: The document that the client is removed from, or `nil` for the application.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The removal's handle.
    public func removeClient(
        _ client: RemoteIdentifier,
        from document: RemoteIdentifier? = nil,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<ClientRemoval> {
        supervisor.add(
            ClientRemovalOperation(of: client, from: document, access),
            after: dependencies,
            options: self.options(options, of: document)
        )
    }
}
