import Foundation
public import Operations
public import RemoteStorage

/// A document that this device is registered with: what ``DocumentRegistrationOperation`` results in.
public struct DocumentRegistration: Sendable, Hashable {
    /// The application that the document belongs to.
    public let application: ApplicationRegistration
    /// The document.
    public let document: RemoteIdentifier
    /// Tells this document from one that is made anew under the same name.
    public let integrityKey: String
    /// Whether this registration made the document.
    public let didCreateDocument: Bool
    /// Whether stores of this document on this device must be replaced by a download before they can be pushed: they belong
    /// to a former document of that name, or this client was removed from the document meanwhile.
    public let mustReplaceLocalStore: Bool

    var hierarchy: DocumentHierarchy { application.hierarchy.document(document) }
    var identity: DocumentIdentity { DocumentIdentity(document: document, integrityKey: integrityKey) }
}

/// What is to be registered.
public struct DocumentRegistrationRequest: Sendable {
    /// The document's identifier.
    public var document: RemoteIdentifier
    /// What people call the document, its original file name for example.
    public var description: String
    /// Anything to be saved with the document by the first registrant, and returned with lists of documents.
    public var userInfo: [String: PropertyListValue]
    /// Whether the document is made if it isn't there; whoever registers is asked all the same.
    public var mayCreateDocument: Bool

    /// Creates a request.
    public init(
        document: RemoteIdentifier,
        description: String,
        userInfo: [String: PropertyListValue] = [:],
        mayCreateDocument: Bool = true
    ) {
        self.document = document
        self.description = description
        self.userInfo = userInfo
        self.mayCreateDocument = mayCreateDocument
    }
}

/// Registers a document, and this device as its client, with the remote.
///
/// A document exists from the moment in which its `documentInfo.plist` appears, which only one device can create; the
/// file names the integrity key, so two devices that come first agree on one. Whatever is missing besides is completed by
/// whoever comes next. Whether to make a document that isn't there is asked while the operation is paused; "no" ends it
/// as cancelled.
public actor DocumentRegistrationOperation: Operation {
    /// What whoever registers is asked.
    public enum Question: Sendable, Hashable {
        /// The document doesn't exist: shall it be made?
        case createDocument
        /// The document was deleted: shall it be made anew?
        case recreateDeletedDocument
    }

    /// Answers what can't be known beforehand.
    ///
    /// It should throw when its task is cancelled.
    public typealias Delegate = @Sendable (Question) async throws -> Bool

    private let request: DocumentRegistrationRequest
    private let application: ApplicationRegistration
    private let hierarchy: DocumentHierarchy
    private let hooks: any DocumentRegistrationHooks
    private let state: StateDirectory
    private let delegate: Delegate

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: What to register.
    ///   - application: The registered application that the document belongs to.
    ///   - backend: Where.
    ///   - state: This device's memory.
    ///   - delegate: Is asked whether to make a document that isn't there.
    public init(
        _ request: DocumentRegistrationRequest,
        application: ApplicationRegistration,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: @escaping Delegate
    ) {
        self.request = request
        self.application = application
        hierarchy = application.hierarchy.document(request.document)
        hooks = backend.documentRegistrationHooks
        self.state = state
        self.delegate = delegate
    }

    private var key: DocumentKey { application.key(hooks.backend, request.document) }

    /// Registers.
    public func main(_ context: OperationContext) async throws -> DocumentRegistration {
        try await translatingErrors {
            let situation = try await look()
            context.reportProgress(0.3)
            if let info = situation.info { return try await join(info, situation, context) }
            return try await create(situation, context)
        }
    }

    /// What is on the remote, asked for all at once.
    private struct Situation {
        var info: DocumentInfo?
        var missing: Set<RemotePath>
        var clients: [RemoteIdentifier]
        var keys: [String]
        var documentWasDeleted: Bool
        var clientWasDeleted: Bool
    }

    private func look() async throws -> Situation {
        async let info = hooks.fetchDocumentInfo(hierarchy)
        async let missing = hooks.missingDirectories(hierarchy)
        async let clients = hooks.listClients(hierarchy)
        async let keys = hooks.listIntegrityKeys(hierarchy)
        async let deleted = hooks.documentWasDeleted(request.document, application.hierarchy)
        async let excluded = hooks.clientWasDeleted(application.client, hierarchy)
        let (seal, role, path) = (
            application.seal, ApplicationSeal.Role.documentInfo(request.document), hierarchy.documentInfo
        )
        return try await Situation(
            info: info.map { try DocumentInfo(seal.open($0, as: role, at: path), at: path) },
            missing: missing,
            clients: clients,
            keys: keys,
            documentWasDeleted: deleted,
            clientWasDeleted: excluded
        )
    }

    // MARK: Creating

    private func create(_ situation: Situation, _ context: OperationContext) async throws -> DocumentRegistration {
        guard request.mayCreateDocument else {
            throw situation.documentWasDeleted
                ? StoreSyncError(.documentDeleted, "\(request.document) was deleted. Push it to make it anew.")
                : StoreSyncError(
                    .documentNotFound,
                    "\(application.application) has no document \(request.document). Check the name; pushing creates it."
                )
        }
        try await request.document.refuseLookalike(among: hooks.listDocuments(application.hierarchy))
        let question: Question = situation.documentWasDeleted ? .recreateDeletedDocument : .createDocument
        guard try await context.pause(awaiting: "\(question)", { try await delegate(question) }) else {
            throw CancellationError()
        }
        let info = DocumentInfo(
            document: request.document.rawValue,
            description: request.description,
            userInfo: request.userInfo,
            originalDevice: application.client.rawValue,
            originalDeviceDescription: application.clientDescription,
            integrityKey: UUID().uuidString,
            isRecreated: situation.documentWasDeleted
        )
        // The document exists from here on; who comes second takes what is there.
        let sealed = application.seal.seal(info.xml, as: .documentInfo(request.document))
        guard try await hooks.createDocumentInfo(sealed, hierarchy) else {
            let situation = try await look()
            guard let info = situation.info else {
                throw StoreSyncError(.busy, "Another device is just registering \(request.document). Try again.")
            }
            return try await join(info, situation, context)
        }
        let key = try integrityKey(info, situation, nil)
        return try await complete(info, key, situation, didCreate: true, mustReplace: false, context)
    }

    // MARK: Joining

    private func join(
        _ info: DocumentInfo,
        _ situation: Situation,
        _ context: OperationContext
    ) async throws -> DocumentRegistration {
        let remembered = try await context.blocking { [state, key] in try state.integrityKey(for: key) }
        let current = try integrityKey(info, situation, remembered)
        try await refuseFormer(current, context)
        let isOther = remembered.map { $0 != current } ?? false
        let mustReplace = isOther || situation.clientWasDeleted
        if mustReplace {
            // Noted before the reasons for it go from the remote, or a crash would forget it.
            try await context.blocking { [state, key] in try state.markStoresForReplacement(document: key) }
        }
        return try await complete(info, current, situation, didCreate: false, mustReplace: mustReplace, context)
    }

    /// A document that was followed by another one of its name doesn't come back, but a storage may put it back.
    private func refuseFormer(_ current: String, _ context: OperationContext) async throws {
        let former = try await context.blocking { [state, key] in try state.formerIntegrityKeys(for: key) }
        guard former.contains(current) else { return }
        throw StoreSyncError(
            .rolledBack,
            """
            \(request.document) was made anew since, and the former document stands on the remote. The new one is still \
            arriving, or the storage was put back to an older state. Try again when everything has arrived. If the former \
            one is really wanted, go on with another state directory (--state).
            """
        )
    }

    /// The key that the document's info names; for TICoreDataSync's documents, the one in the directory.
    private func integrityKey(
        _ info: DocumentInfo,
        _ situation: Situation,
        _ remembered: String?
    ) throws -> String {
        if let key = info.integrityKey { return key }
        if let remembered, situation.keys.contains(remembered) { return remembered }
        guard let key = situation.keys.first else {
            throw StoreSyncError(
                .applicationIncomplete,
                "\(hierarchy.root) on the remote has no integrity key: it is still arriving, or was damaged. Try again when everything has arrived."
            )
        }
        return key
    }

    // MARK: Completing

    /// Makes whatever is missing, whoever left it undone.
    private func complete(
        _ info: DocumentInfo,
        _ key: String,
        _ situation: Situation,
        didCreate: Bool,
        mustReplace: Bool,
        _ context: OperationContext
    ) async throws -> DocumentRegistration {
        if !situation.missing.isEmpty { try await hooks.createDirectories(situation.missing, hierarchy) }
        context.reportProgress(0.5)
        async let saving: Void = saveIntegrityKey(key, info, situation)
        async let making: Void = createClientDirectories(situation)
        _ = try await (saving, making)
        context.reportProgress(0.7)
        if info.isRecreated, situation.documentWasDeleted { try await finishRecreation(info, key, situation) }
        if situation.clientWasDeleted { try await hooks.removeDeletedClientNote(application.client, hierarchy) }
        try await context.blocking { [state, documentKey = self.key] in
            try state.setIntegrityKey(key, isSuccessor: info.isRecreated, for: documentKey)
        }
        return DocumentRegistration(
            application: application,
            document: request.document,
            integrityKey: key,
            didCreateDocument: didCreate,
            mustReplaceLocalStore: mustReplace
        )
    }

    private func saveIntegrityKey(_ key: String, _ info: DocumentInfo, _ situation: Situation) async throws {
        guard !situation.keys.contains(key) else { return }
        let content = DocumentInfo.integrityKeyFile(originalDevice: info.originalDevice)
        let sealed = application.seal.seal(content, as: .integrityKey(key, of: request.document))
        try await hooks.saveIntegrityKey(key, content: sealed, hierarchy)
    }

    private func createClientDirectories(_ situation: Situation) async throws {
        guard !situation.clients.contains(application.client) else { return }
        try await hooks.createClientDirectories(application.client, hierarchy)
    }

    /// Tells every other client that its store belongs to the deleted document, then takes the deletion's note away.
    private func finishRecreation(_ info: DocumentInfo, _ key: String, _ situation: Situation) async throws {
        let others = try await hooks.listApplicationClients(application.hierarchy).filter {
            // Who has registered with the new document already, and who made it, know.
            $0.client.rawValue != info.originalDevice && $0.client != application.client
                && !situation.clients.contains($0.client)
        }
        let identity = DocumentIdentity(document: request.document, integrityKey: key)
        try await together(others) { [hooks, hierarchy, application] client, deviceInfo in
            // What is known of the client moves into the note, and so under the note's seal.
            let path = application.hierarchy.deviceInfo(client)
            let known = deviceInfo.flatMap { try? application.seal.open($0, as: .deviceInfo(client), at: path) }
            let content = known ?? DeviceInfo(client: client.rawValue, description: "", userInfo: [:]).xml
            let sealed = application.seal.seal(content, as: .deletedClient(client, of: identity))
            try await hooks.saveDeletedClientNote(client, content: sealed, hierarchy)
        }
        try await hooks.removeDeletedDocumentNote(request.document, application.hierarchy)
    }
}

extension ApplicationRegistration {
    /// What this device's memory of a document is kept under.
    func key(_ backend: any RemoteBackend, _ document: RemoteIdentifier) -> DocumentKey {
        DocumentKey(
            application: ApplicationKey(remote: backend.identity, application: application.rawValue),
            document: document.rawValue
        )
    }
}
