import Foundation
public import Operations
public import RemoteStorage
import ThreadSupport

/// Registers a document, and this device as its client, with the remote.
///
/// A document exists as soon as its `documentInfo.plist` exists, which only one device can create. The file names the
/// integrity key, so that devices that register first at the same time agree on one. The next device that registers
/// completes what is missing.
///
/// The operation is paused while it asks whether to create a document that doesn't exist; "no" ends it as cancelled.
public actor DocumentRegistrationOperation: Operation {
    /// A question that a registration asks its delegate.
    public enum Question: Sendable, Hashable {
        /// The document doesn't exist: should it be created?
        case createDocument
        /// The document was deleted: should it be created again?
        case recreateDeletedDocument
    }

    /// Answers the questions that a registration can't settle by itself.
    ///
    /// It should throw when its task is cancelled.
    public typealias Delegate = @Sendable (Question) async throws -> Bool

    let request: DocumentRegistrationRequest
    let application: ApplicationRegistration
    let hierarchy: DocumentHierarchy
    let hooks: any DocumentRegistrationHooks
    let state: StateDirectory
    let delegate: Delegate

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: What to register.
    ///   - application: The registered application that the document belongs to.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    ///   - delegate: Decides whether to create a document that doesn't exist.
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

    var key: DocumentKey { application.key(hooks.backend, request.document) }

    /// Registers the document and this client.
    ///
    /// - Throws: ``StoreSyncError``, among others `documentNotFound`, `documentDeleted`, `documentMissing`,
    ///   `rolledBack`, `applicationIncomplete` and `busy`; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> DocumentRegistration {
        try await translatingErrors {
            // Another operation of this device may register with the document's successor meanwhile.
            try await comparing(with: { try await integrityMemory(context) }) { _ in
                let remote = try await inspect()
                context.reportProgress(0.3)
                if let info = remote.info { return try await join(info, remote, context) }
                return try await create(remote, context)
            }
        }
    }

    private func integrityMemory(_ context: OperationContext) async throws -> IntegrityMemory {
        try await context.blocking { [state, key] in try state.integrityMemory(for: key) }
    }

    /// The state of the document on the remote, fetched with concurrent requests.
    struct RemoteState {
        var info: DocumentInfo?
        var missing: Set<RemotePath>
        /// The clients that have a directory.
        var clients: [RemoteIdentifier]
        var keys: [String]
        /// The document that was deleted, according to an authentic note.
        var deleted: DocumentInfo?
        /// The notes that this client was removed from the document, which count if they are authentic.
        var removalNotes: [ClientNote]
        var warnings: [String] = []
    }

    func inspect() async throws -> RemoteState {
        async let info = hooks.fetchDocumentInfo(hierarchy)
        async let missing = hooks.missingDirectories(hierarchy)
        async let clients = hooks.listClients(hierarchy)
        async let keys = hooks.listIntegrityKeys(hierarchy)
        async let deleted = hooks.fetchDeletedDocumentNote(request.document, application.hierarchy)
        async let excluded = ClientNote.read(on: application.client, in: hierarchy.deletedClients, hooks)
        var remote = try await RemoteState(
            info: info.map { try application.seal.documentInfo($0, hierarchy) },
            missing: missing,
            clients: clients,
            keys: keys,
            removalNotes: excluded
        )
        if let note = try await deleted { remote.deleted = deletedDocument(note, &remote.warnings) }
        return remote
    }

    /// The document that a note says was deleted; `nil` if the note isn't authentic.
    private func deletedDocument(_ note: [UInt8], _ warnings: inout [String]) -> DocumentInfo? {
        do {
            return try application.seal.deletedDocument(note, request.document, application.hierarchy)
        } catch {
            let path = application.hierarchy.deletedDocument(request.document)
            warnings.append("\(path) on the remote isn't authentic, so it was ignored: \(error.message)")
            return nil
        }
    }

    /// The notes on clients that were removed from the document with an integrity key.
    private func clientNotes(_ key: String) -> ClientNotes {
        let identity = DocumentIdentity(document: request.document, integrityKey: key)
        return ClientNotes(subject: .document(hierarchy, identity), seal: application.seal, hooks: hooks)
    }

    /// Returns whether this device has acted on a note before, which means that the storage has put it back.
    ///
    /// Only sealed notes can be distinguished: no two are equal.
    private func isFormer(_ note: ClientNote, among former: Set<String>, _ warnings: inout [String]) -> Bool {
        guard application.isEncrypted, former.contains(note.digest) else { return false }
        let path = "\(hierarchy.deletedClients)/\(note.name.fileName)"
        warnings.append("\(path) on the remote is an old note that was put back. It was ignored and removed.")
        return true
    }

    /// The document that was deleted, according to an authentic note that exists now.
    ///
    /// The answers of ``inspect()`` may be from before and after another device's removal of the document.
    func deletedDocument() async throws -> DocumentInfo? {
        let (hierarchy, backend) = (application.hierarchy, hooks.backend)
        return try await DeletedDocumentNotes(hierarchy: hierarchy, seal: application.seal, backend: backend)
            .deleted(request.document)
    }

    // MARK: Joining

    func join(
        _ info: DocumentInfo,
        _ remote: RemoteState,
        _ context: OperationContext
    ) async throws -> DocumentRegistration {
        if let deleted = remote.deleted, info.wasDeleted(accordingTo: deleted) {
            throw StoreSyncError.removalInterrupted(request.document)
        }
        let memory = try await integrityMemory(context)
        let current = try integrityKey(info, remote, memory.current)
        guard !memory.isStranger(info, current, isEncrypted: application.isEncrypted) else { throw stranger }
        let isOther = memory.current.map { $0 != current } ?? false
        return try await complete(Found(info: info, key: current, isOther: isOther), remote, context)
    }

    /// The error of a document that is neither the remembered one nor its successor: a storage may put a former one back.
    private var stranger: StoreSyncError {
        StoreSyncError(
            .rolledBack,
            """
            \(request.document) on the remote isn't the document that this device knows, nor its successor: a former one was \
            put back, the new one is still arriving, or two devices created it before the folder's files had arrived. Try again \
            when everything has arrived. A conflict copy beside \(hierarchy.documentInfo), such as “documentInfo (conflicted \
            copy).plist”, may be of the document that this device knows: under its former name it counts again. If you really \
            want the document on the remote, continue with another state directory (--state); a synchronization with --take \
            both then keeps the rows of this store, too.
            """
        )
    }

    /// The key that the document's info names; for TICoreDataSync's documents, the one in the directory.
    func integrityKey(
        _ info: DocumentInfo,
        _ remote: RemoteState,
        _ remembered: String?
    ) throws -> String {
        if let key = info.integrityKey { return key }
        if let remembered, remote.keys.contains(remembered) { return remembered }
        guard let key = remote.keys.first else {
            throw StoreSyncError(
                .applicationIncomplete,
                "\(hierarchy.root) on the remote has no integrity key: it is still arriving, or was damaged. Try again when everything has arrived."
            )
        }
        return key
    }

    // MARK: Completing

    /// A document that exists.
    struct Found {
        let info: DocumentInfo
        /// Its integrity key.
        let key: String
        /// Whether this device has just created it.
        var didCreate = false
        /// Whether this device remembers another document under the same name.
        var isOther = false
    }

    /// Completes the document, and acts on the notes that this client was removed from it.
    func complete(
        _ found: Found,
        _ remote: RemoteState,
        _ context: OperationContext
    ) async throws -> DocumentRegistration {
        let (info, integrityKey) = (found.info, found.key)
        try await createMissing(of: found, remote, context)
        let former = try await context.blocking { [state, key] in try state.formerRemovalNotes(for: key) }
        let clientNotes = clientNotes(integrityKey)
        let (notes, ignored) = try await clientNotes.authentic(removalNotes(remote, of: info))
        var warnings = remote.warnings + ignored
        let wasRemoved = !notes.filter { !isFormer($0, among: former, &warnings) }.isEmpty
        let isOwn = isOwn(info)
        // The creator continues with its own store, also if it's a later run that completes the document.
        let mustReplace = !found.didCreate && (wasRemoved || found.isOther && !isOwn)
        if mustReplace {
            // Recorded before the reasons are removed from the remote, or a crash would lose it.
            try await context.blocking { [state, key] in try state.markStoresForReplacement(document: key) }
        }
        if remote.deleted != nil, info.isRecreated { try await finishRecreation(of: found) }
        for note in notes {
            try await context.blocking { [state, key] in try state.addFormerRemovalNote(note.digest, for: key) }
            try await clientNotes.remove(note)
        }
        let isCurrent = try await context.blocking { [state, key] in
            try state.setIntegrityKey(integrityKey, after: info.predecessors, for: key)
        }
        guard isCurrent else { throw stranger }
        return DocumentRegistration(
            application: application,
            document: request.document,
            integrityKey: integrityKey,
            didCreateDocument: found.didCreate,
            mustReplaceLocalStore: mustReplace,
            isOwn: isOwn,
            warnings: warnings
        )
    }

    /// Whether this client created the document.
    private func isOwn(_ info: DocumentInfo) -> Bool { info.originalDevice == application.client.rawValue }

    /// Creates what is missing, whichever device left it incomplete.
    private func createMissing(
        of found: Found,
        _ remote: RemoteState,
        _ context: OperationContext
    ) async throws {
        if !remote.missing.isEmpty { try await hooks.createDirectories(remote.missing, hierarchy) }
        context.reportProgress(0.5)
        async let saving: Void = saveIntegrityKey(of: found, remote)
        async let making: Void = createClientDirectories(remote)
        _ = try await (saving, making)
        context.reportProgress(0.7)
    }

    /// Saves the file of the integrity key, if it's missing.
    ///
    /// Only the document's creator saves a sealed one, also in a later run that completes the document: another device's
    /// would have other bytes than the creator's, which may still be arriving, and no device needs it.
    private func saveIntegrityKey(of found: Found, _ remote: RemoteState) async throws {
        let key = found.key
        guard !remote.keys.contains(key), isOwn(found.info) || !application.isEncrypted else { return }
        let content = DocumentInfo.integrityKeyFile(originalDevice: found.info.originalDevice)
        let sealed = application.seal.seal(content, as: .integrityKey(key, of: request.document))
        try await hooks.saveIntegrityKey(key, content: sealed, hierarchy)
    }

    /// The notes on this client, read again if it has just created its directories in a recreated document.
    ///
    /// A device that creates the document again writes a note on every client, and then removes the notes on those
    /// that have directories. A client that reads the notes once its directories exist misses none of the others.
    private func removalNotes(_ remote: RemoteState, of info: DocumentInfo) async throws -> [ClientNote] {
        guard info.isRecreated, !remote.clients.contains(application.client) else { return remote.removalNotes }
        return try await ClientNote.read(on: application.client, in: hierarchy.deletedClients, hooks)
    }

    private func createClientDirectories(_ remote: RemoteState) async throws {
        guard !remote.clients.contains(application.client) else { return }
        try await hooks.createClientDirectories(application.client, hierarchy)
    }

    /// Notes for every other client that its store belongs to the deleted document, then removes the deletion's note.
    private func finishRecreation(of found: Found) async throws {
        let info = found.info
        let all = try await hooks.listApplicationClients(application.hierarchy)
        // Listed after them, since a client may just have registered with the new document: those know already, as its
        // creator does.
        let registered = try await hooks.backend.clients(of: hierarchy)
        let others = all.filter { $0.client.rawValue != info.originalDevice && !registered.contains($0.client) }
        let notes = clientNotes(found.key)
        try await others.concurrentMap { [application] client, deviceInfo in
            // The client's info moves into the note, and so under the note's seal.
            let known = deviceInfo.flatMap { try? application.seal.deviceInfo($0, of: client, application.hierarchy) }
            try await notes.save(known ?? DeviceInfo(nothingKnownOf: client), on: client, by: application.client)
        }
        // A client that has registered meanwhile needs no note. It reads the notes once its directories exist, so it finds
        // any that's written after this list.
        let late = try await hooks.backend.clients(of: hierarchy)
        try await others.map(\.client).filter(late.contains).concurrentMap { [application] client in
            try await notes.remove(on: client, by: application.client)
        }
        // Another device may have removed the new document meanwhile: then the note is about that one.
        if let deleted = try await deletedDocument(), info.wasDeleted(accordingTo: deleted) {
            throw StoreSyncError.removalInterrupted(request.document)
        }
        try await hooks.removeDeletedDocumentNote(request.document, application.hierarchy)
    }
}
