public import Operations
public import RemoteStorage
import SyncCryptography

/// A removed client: the result of ``ClientRemovalOperation``.
public struct ClientRemoval: Sendable, Hashable {
    /// The client.
    public let client: RemoteIdentifier
    /// Warnings for the user, in full sentences.
    public let warnings: [String]
}

/// Removes a client from an application, or from one of its documents.
///
/// The operation first saves a note of the removal, sealed if the application is encrypted, and then removes the
/// client's files. The client's uploads stay until another client's upload includes them. If the operation ends in
/// between, running it again completes it.
///
/// A client that comes back finds the note and is ``StoreSyncError/Code/deregistered``. A client that was removed from
/// a document must replace its store by a download.
public actor ClientRemovalOperation: Operation {
    private let client: RemoteIdentifier
    private let document: RemoteIdentifier?
    private let hierarchy: ApplicationHierarchy
    private let backend: any RemoteBackend
    private let state: StateDirectory
    private let delegate: ApplicationRegistrationOperation.Delegate

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - client: The client to remove, which isn't this device.
    ///   - application: The application.
    ///   - document: The document that the client is removed from; the whole application if this is `nil`.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    ///   - delegate: Is asked for the password of an encrypted application whose keys this device doesn't have.
    public init(
        _ client: RemoteIdentifier,
        of application: RemoteIdentifier,
        from document: RemoteIdentifier? = nil,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: ApplicationRegistrationOperation.Delegate? = nil
    ) {
        self.client = client
        self.document = document
        hierarchy = ApplicationHierarchy(application)
        self.backend = backend
        self.state = state
        self.delegate = delegate ?? { _ in throw StoreSyncError.passwordRequired(application) }
    }

    private var key: ApplicationKey {
        ApplicationKey(remote: backend.identity, application: hierarchy.application.rawValue)
    }

    /// Removes the client.
    public func main(_ context: OperationContext) async throws -> ClientRemoval {
        try await translatingErrors {
            let own = try await context.blocking { [state, key] in try state.peekClientIdentifier(for: key) }
            guard own != client.rawValue else {
                throw StoreSyncError(
                    .invalidIdentifier,
                    "\(client) is this device itself. Remove it from another device, or delete the state directory."
                )
            }
            let hooks = backend.applicationRegistrationHooks
            guard try await hooks.applicationDirectoryExists(hierarchy) else {
                throw StoreSyncError(
                    .applicationMissing,
                    "There is no application \(hierarchy.application) at \(backend.identity). Check both names."
                )
            }
            let unlocking = ApplicationUnlocking(hierarchy, backend, state, delegate: delegate)
            let seal = try await unlocking.seal(EncryptionFiles.fetch(hooks, hierarchy), context)
            context.reportProgress(0.3)
            let info = try await knownClient(seal, hooks, unlocking)
            if let document {
                try await remove(info, from: hierarchy.document(document), seal)
            } else {
                try await remove(info, seal, hooks)
            }
            return ClientRemoval(client: client, warnings: [])
        }
    }

    /// Returns the info of the client, which is registered, or whose removal was interrupted.
    private func knownClient(
        _ seal: ApplicationSeal,
        _ hooks: any ApplicationRegistrationHooks,
        _ unlocking: ApplicationUnlocking
    ) async throws -> DeviceInfo {
        async let listed = hooks.listClients(hierarchy)
        async let removed = hooks.listDeletedClients(hierarchy)
        let bytes = try await hooks.fetchDeviceInfo(of: client, hierarchy)
        guard try await (listed + removed).contains(client) else {
            throw StoreSyncError(
                .clientNotFound,
                "\(hierarchy.application) has no client \(client). storesync status lists its clients."
            )
        }
        if let bytes, !seal.isEncrypted, EpochKey.isSealed(bytes) { throw unlocking.registrationMissing }
        let path = hierarchy.deviceInfo(client)
        let info = bytes.flatMap { try? DeviceInfo(seal.open($0, as: .deviceInfo(client), at: path), at: path) }
        return info ?? DeviceInfo(client: client.rawValue, description: "", userInfo: [:])
    }

    private func remove(
        _ info: DeviceInfo,
        _ seal: ApplicationSeal,
        _ hooks: any ApplicationRegistrationHooks
    ) async throws {
        let note = seal.seal(info.xml, as: .removedClient(client))
        try await hooks.saveDeletedClientNote(client, content: note, hierarchy)
        let documentHooks = backend.documentRegistrationHooks
        for document in try await documentHooks.listDocuments(hierarchy) {
            try await documentHooks.removeEmptyClientDirectories(client, hierarchy.document(document))
        }
        try await backend.keychainSynchronizationHooks.removeKeychainFile(of: client, hierarchy)
        try await hooks.removeClientDeviceDirectory(client, hierarchy)
    }

    private func remove(
        _ info: DeviceInfo,
        from hierarchy: DocumentHierarchy,
        _ seal: ApplicationSeal
    ) async throws {
        let hooks = backend.documentRegistrationHooks
        let path = hierarchy.documentInfo
        guard let bytes = try await hooks.fetchDocumentInfo(hierarchy) else {
            throw StoreSyncError(
                .documentNotFound,
                "\(self.hierarchy.application) has no document \(hierarchy.document). Check the name."
            )
        }
        let opened = try seal.open(bytes, as: .documentInfo(hierarchy.document), at: path)
        let key = try DocumentInfo(opened, at: path).integrityKey ?? ""
        let identity = DocumentIdentity(document: hierarchy.document, integrityKey: key)
        let note = seal.seal(info.xml, as: .deletedClient(client, of: identity))
        try await hooks.saveDeletedClientNote(client, content: note, hierarchy)
        try await hooks.removeEmptyClientDirectories(client, hierarchy)
    }
}
