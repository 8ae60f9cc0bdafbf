public import Operations
public import RemoteStorage
import ThreadSupport

/// Removes a client from an application, or from one of its documents.
///
/// The operation first saves a note of the removal, sealed if the application is encrypted, and then removes what only the
/// client itself has written and only it needs. Its uploads stay until another client's upload includes them, and so do its change
/// sets. Its keychain file stays until the keychain of another client contains its items. Its directories in documents stay too: a
/// directory that looks empty may have files that haven't arrived here. If the operation ends in between, running it again
/// completes it.
///
/// ```swift
/// let removal = try await supervisor.add(ClientRemovalOperation(of: client, from: document, access)).value
/// ```
///
/// A client that comes back finds the note and is ``StoreSyncError/Code/deregistered``. A client that was removed from
/// a document must replace its store by a download.
public actor ClientRemovalOperation: Operation {
    private let client: RemoteIdentifier
    private let document: RemoteIdentifier?
    private let access: ApplicationAccess
    private let registration: any ApplicationRegistrationHooks
    private let documents: any DocumentRegistrationHooks

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - client: The client to remove, which isn't this device.
    ///   - document: The document that the client is removed from; the whole application if this is `nil`.
    ///   - access: The application.
    public init(of client: RemoteIdentifier, from document: RemoteIdentifier? = nil, _ access: ApplicationAccess) {
        self.client = client
        self.document = document
        self.access = access
        registration = access.backend.applicationRegistrationHooks
        documents = access.backend.documentRegistrationHooks
    }

    private var hierarchy: ApplicationHierarchy { access.hierarchy }

    /// Removes the client.
    ///
    /// - Throws: ``StoreSyncError``, among others `clientNotFound`, `invalidIdentifier`, `documentNotFound`,
    ///   `applicationMissing`, `passwordRequired` and `deregistered`; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> ClientRemoval {
        try await translatingErrors {
            let own = try await context.blocking { [access] in
                try access.state.peekClientIdentifier(for: access.key)
            }
            guard own != client.rawValue else {
                throw StoreSyncError(
                    .invalidIdentifier,
                    "\(client) is this device itself, which can't remove itself. Remove it from another device."
                )
            }
            let seal = try await access.sealForRemoval(context)
            context.reportProgress(0.3)
            return if let document {
                try await remove(from: hierarchy.document(document), seal, context)
            } else {
                try await remove(seal, context)
            }
        }
    }

    /// Removes the client from the application.
    private func remove(_ seal: ApplicationSeal, _ context: OperationContext) async throws -> ClientRemoval {
        let notes = ClientNotes(subject: .application(hierarchy), seal: seal, hooks: registration)
        let registered = try await registration.listClients(hierarchy)
        let warnings = try await save(
            notes,
            isRegistered: registered.contains(client),
            "\(access.application)",
            context
        )
        let recentSyncs = access.backend.recentSyncHooks
        try await documents.listDocuments(hierarchy).concurrentMap { [self] in
            try await recentSyncs.removeRecentSync(of: client, hierarchy.document($0))
        }
        try await registration.removeClientDeviceDirectory(client, hierarchy)
        return ClientRemoval(client: client, warnings: warnings)
    }

    /// Removes the client from a document.
    private func remove(
        from hierarchy: DocumentHierarchy,
        _ seal: ApplicationSeal,
        _ context: OperationContext
    ) async throws -> ClientRemoval {
        guard let bytes = try await documents.fetchDocumentInfo(hierarchy) else {
            throw access.documentNotFound(hierarchy.document)
        }
        let info = try seal.documentInfo(bytes, hierarchy)
        let identity = DocumentIdentity(document: hierarchy.document, integrityKey: info.integrityKey ?? "")
        let notes = ClientNotes(subject: .document(hierarchy, identity), seal: seal, hooks: documents)
        let registered = try await access.backend.clients(of: hierarchy)
        let warnings = try await save(
            notes,
            isRegistered: registered.contains(client),
            "\(hierarchy.document)",
            context
        )
        try await access.backend.recentSyncHooks.removeRecentSync(of: client, hierarchy)
        return ClientRemoval(client: client, warnings: warnings)
    }

    /// Saves the note on the client, which is registered, or whose removal was interrupted.
    ///
    /// - Returns: Warnings about notes on the client that don't count.
    private func save(
        _ notes: ClientNotes,
        isRegistered: Bool,
        _ place: String,
        _ context: OperationContext
    ) async throws -> [String] {
        let (known, warnings) = try await notes.read(on: client)
        guard isRegistered || !known.isEmpty else {
            throw StoreSyncError(
                .clientNotFound,
                "\(place) has no client \(client). storesync list clients lists its clients."
            )
        }
        let info = try await registration.fetchDeviceInfo(of: client, hierarchy)
            .flatMap { try? notes.seal.deviceInfo($0, of: client, hierarchy) }
        // A device that isn't registered needs an identifier too, for the name of the note that only it writes.
        let remover = try await context.blocking { [access] in try access.state.clientIdentifier(for: access.key) }
        try await notes.save(
            info ?? DeviceInfo(nothingKnownOf: client),
            on: client,
            by: RemoteIdentifier(remover)
        )
        context.reportProgress(0.6)
        return warnings
    }
}
