public import RemoteStorage
import ThreadSupport

/// The remote steps of ``DocumentRegistrationOperation``.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol DocumentRegistrationHooks: ClientNoteHooks {
    /// Reads what is known of the document; `nil` if it isn't registered.
    func fetchDocumentInfo(_ hierarchy: DocumentHierarchy) async throws -> [UInt8]?

    /// Saves what is known of the document, unless the file exists: this creates the document.
    ///
    /// - Returns: Whether it was saved. At most one caller, on any device, gets `true`.
    func createDocumentInfo(_ bytes: [UInt8], _ hierarchy: DocumentHierarchy) async throws -> Bool

    /// The missing paths among the directories that a document always has.
    func missingDirectories(_ hierarchy: DocumentHierarchy) async throws -> Set<RemotePath>

    /// Creates directories of the document.
    func createDirectories(_ directories: Set<RemotePath>, _ hierarchy: DocumentHierarchy) async throws

    /// The names of the document's integrity keys.
    func listIntegrityKeys(_ hierarchy: DocumentHierarchy) async throws -> [String]

    /// Saves the file whose name is an integrity key.
    ///
    /// An existing file may be replaced: its content is the same.
    func saveIntegrityKey(_ key: String, content: [UInt8], _ hierarchy: DocumentHierarchy) async throws

    /// Reads the note that a document of that name was deleted; `nil` if there is none.
    func fetchDeletedDocumentNote(
        _ document: RemoteIdentifier,
        _ application: ApplicationHierarchy
    ) async throws -> [UInt8]?

    /// Removes the note that a document was deleted.
    func removeDeletedDocumentNote(
        _ document: RemoteIdentifier,
        _ application: ApplicationHierarchy
    ) async throws

    /// The clients that have a directory for changes in the document.
    ///
    /// A service that replicates a folder may not have carried it while it's empty.
    func listClients(_ hierarchy: DocumentHierarchy) async throws -> [RemoteIdentifier]

    /// Creates the client's directories for changes and commands.
    func createClientDirectories(_ client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) async throws

    /// The names of all documents, to find a name that some storage treats as the same.
    func listDocuments(_ application: ApplicationHierarchy) async throws -> [RemoteIdentifier]

    /// The clients that have a directory in the application, with what is known of each if it can be read.
    func listApplicationClients(
        _ application: ApplicationHierarchy
    ) async throws -> [(client: RemoteIdentifier, deviceInfo: [UInt8]?)]
}

extension DocumentRegistrationHooks {
    /// Reads the file.
    public func fetchDocumentInfo(_ hierarchy: DocumentHierarchy) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.documentInfo)
    }

    /// Creates the file, or checks the existing one.
    ///
    /// An existing file is read back: an earlier attempt of this client may have written it.
    public func createDocumentInfo(_ bytes: [UInt8], _ hierarchy: DocumentHierarchy) async throws -> Bool {
        if try await backend.writeIfAbsent(bytes, to: hierarchy.documentInfo) { return true }
        return try await fetchDocumentInfo(hierarchy) == bytes
    }

    /// Lists the two directories that contain others.
    public func missingDirectories(_ hierarchy: DocumentHierarchy) async throws -> Set<RemotePath> {
        async let root = backend.paths(in: hierarchy.root)
        async let temporary = backend.paths(in: hierarchy.temporaryFiles)
        let present = try await (root ?? []) + (temporary ?? [])
        return Set(hierarchy.directories.dropFirst()).subtracting(present)
    }

    /// Creates the directories concurrently.
    public func createDirectories(_ directories: Set<RemotePath>, _ hierarchy: DocumentHierarchy) async throws {
        try await Array(directories).innermost.concurrentMap { [backend] in try await backend.createDirectory(at: $0) }
    }

    /// Lists the directory.
    public func listIntegrityKeys(_ hierarchy: DocumentHierarchy) async throws -> [String] {
        (try await backend.list(hierarchy.integrityKeys) ?? [])
            .filter { $0.kind == .file && !$0.name.hasPrefix(".") }.map(\.name).sorted()
    }

    /// Writes the file.
    public func saveIntegrityKey(_ key: String, content: [UInt8], _ hierarchy: DocumentHierarchy) async throws {
        try await backend.write(content, to: hierarchy.integrityKey(key), when: .always)
    }

    /// Reads the note.
    public func fetchDeletedDocumentNote(
        _ document: RemoteIdentifier,
        _ application: ApplicationHierarchy
    ) async throws -> [UInt8]? {
        try await backend.note(at: application.deletedDocument(document))
    }

    /// Removes the note.
    public func removeDeletedDocumentNote(
        _ document: RemoteIdentifier,
        _ application: ApplicationHierarchy
    ) async throws {
        try await backend.remove(application.deletedDocument(document))
    }

    /// Lists the clients' directories for changes.
    public func listClients(_ hierarchy: DocumentHierarchy) async throws -> [RemoteIdentifier] {
        try await backend.list(hierarchy.syncChanges).directoryIdentifiers
    }

    /// Creates both directories concurrently.
    public func createClientDirectories(_ client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) async throws {
        try await [hierarchy.syncChanges(client), hierarchy.syncCommands(client)].concurrentMap { [backend] in
            try await backend.createDirectory(at: $0)
        }
    }

    /// Lists the documents' directories.
    public func listDocuments(_ application: ApplicationHierarchy) async throws -> [RemoteIdentifier] {
        try await backend.list(application.documents).directoryIdentifiers
    }

    /// Lists the clients' directories, then reads their files concurrently.
    public func listApplicationClients(
        _ application: ApplicationHierarchy
    ) async throws -> [(client: RemoteIdentifier, deviceInfo: [UInt8]?)] {
        let clients = try await backend.list(application.clientDevices).directoryIdentifiers
        let infos = try await clients.concurrentMap { [backend] in
            try await backend.smallFile(at: application.deviceInfo($0), isReplaced: true)
        }
        return zip(clients, infos).map { ($0, $1) }
    }
}
