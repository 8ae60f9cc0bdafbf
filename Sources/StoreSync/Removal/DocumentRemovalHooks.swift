public import RemoteStorage
import ThreadSupport

/// The remote steps of ``DocumentRemovalOperation``.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol DocumentRemovalHooks: SyncHooks {
    /// The documents that have a note of their deletion.
    func listDeletedDocuments(_ application: ApplicationHierarchy) async throws -> [RemoteIdentifier]

    /// Saves the note that a document was deleted, in place of a note on a former document of its name.
    func saveDeletedDocumentNote(
        _ content: [UInt8],
        of document: RemoteIdentifier,
        _ application: ApplicationHierarchy
    ) async throws

    /// The content of a document: all but its info and the directories that it always has.
    ///
    /// - Returns: The files, among them the manifests, and the directories, which are removed after the files.
    func listDocumentContent(
        _ hierarchy: DocumentHierarchy
    ) async throws -> (files: [RemotePath], directories: [RemotePath])

    /// Removes content of a document.
    func removeDocumentContent(_ paths: [RemotePath]) async throws

    /// Moves what is left of a document to paths of its own, unless it doesn't exist any more.
    func moveDocumentAside(_ hierarchy: DocumentHierarchy, to aside: DocumentHierarchy) async throws

    /// The paths to which removals have moved documents of this name.
    func listDocumentsAside(
        _ document: RemoteIdentifier,
        _ application: ApplicationHierarchy
    ) async throws -> [DocumentHierarchy]

    /// Moves a document back to its regular paths, to which its clients may have written meanwhile.
    func moveDocumentBack(_ aside: DocumentHierarchy, to hierarchy: DocumentHierarchy) async throws

    /// Removes what is left of a document: its info and its directories.
    func removeDocumentStructure(_ hierarchy: DocumentHierarchy) async throws
}

extension DocumentRemovalHooks {
    /// Lists the directory.
    public func listDeletedDocuments(_ application: ApplicationHierarchy) async throws -> [RemoteIdentifier] {
        try await backend.list(application.deletedDocuments).noteIdentifiers
    }

    /// Writes the file.
    public func saveDeletedDocumentNote(
        _ content: [UInt8],
        of document: RemoteIdentifier,
        _ application: ApplicationHierarchy
    ) async throws {
        try await backend.write(content, to: application.deletedDocument(document), when: .always)
    }

    /// Lists the document's directories and the directories of its clients in them.
    ///
    /// Uploads and sets of changes are in the latter.
    public func listDocumentContent(
        _ hierarchy: DocumentHierarchy
    ) async throws -> (files: [RemotePath], directories: [RemotePath]) {
        let top = try await items(in: [hierarchy.root])
        let second = try await items(in: top.directories)
        let third = try await items(in: second.directories)
        let files = top.files.filter { $0 != hierarchy.documentInfo } + second.files + third.files
        return (files, third.directories)
    }

    private func items(
        in directories: [RemotePath]
    ) async throws -> (files: [RemotePath], directories: [RemotePath]) {
        let listed = try await directories.concurrentMap { [backend] directory in
            try await (backend.list(directory) ?? []).map { (try directory.appending($0.name), $0.kind) }
        }.flatMap(\.self)
        return (
            listed.filter { $0.1 != .directory }.map(\.0),
            listed.filter { $0.1 == .directory }.map(\.0)
        )
    }

    /// Removes the items concurrently.
    public func removeDocumentContent(_ paths: [RemotePath]) async throws {
        try await paths.concurrentMap { [backend] in try await backend.remove($0) }
    }

    /// Moves the document's directory.
    public func moveDocumentAside(_ hierarchy: DocumentHierarchy, to aside: DocumentHierarchy) async throws {
        // It doesn't exist any more if another device has removed the document, or moved it.
        _ = try await backend.moveAside(hierarchy.root, to: aside.root)
    }

    /// Lists the directory of notes.
    public func listDocumentsAside(
        _ document: RemoteIdentifier,
        _ application: ApplicationHierarchy
    ) async throws -> [DocumentHierarchy] {
        (try await backend.list(application.deletedDocuments) ?? []).filter { $0.kind == .directory }
            .compactMap { ApplicationHierarchy.unique(ofDirectoryNamed: $0.name, of: document) }
            .map { application.documentAside(document, $0) }
    }

    /// Moves the directory, or what is in it if the document's directory exists.
    public func moveDocumentBack(_ aside: DocumentHierarchy, to hierarchy: DocumentHierarchy) async throws {
        do {
            try await backend.move(aside.root, to: hierarchy.root)
        } catch let error as RemoteError where error.code == .alreadyExists {
            try await backend.moveContent(of: aside.root, to: hierarchy.root)
            try await backend.remove(aside.root)
        } catch let error as RemoteError where error.code == .notFound {
            // Another device has moved it back.
        }
    }

    /// Removes the document's directory.
    public func removeDocumentStructure(_ hierarchy: DocumentHierarchy) async throws {
        try await backend.remove(hierarchy.root)
    }
}
