import RemoteStorage
import ThreadSupport

/// The notes on documents that were deleted from an application.
struct DeletedDocumentNotes: Sendable {
    let hierarchy: ApplicationHierarchy
    let seal: ApplicationSeal
    let backend: any RemoteBackend

    /// The document that an authentic note says was deleted; `nil` if there is no such note.
    func deleted(_ document: RemoteIdentifier) async throws -> DocumentInfo? {
        try await backend.documentRegistrationHooks.fetchDeletedDocumentNote(document, hierarchy)
            .flatMap { try? seal.deletedDocument($0, document, hierarchy) }
    }

    /// The documents that authentic notes say were deleted, as far as they are among `documents`.
    func deleted(among documents: [RemoteIdentifier]) async throws -> [RemoteIdentifier: DocumentInfo] {
        let noted = try await backend.documentRemovalHooks.listDeletedDocuments(hierarchy)
        let found = try await Set(noted).intersection(documents).concurrentMap { ($0, try await deleted($0)) }
        return Dictionary(uniqueKeysWithValues: found).compactMapValues(\.self)
    }

    /// Saves the note that a document was deleted, unless there is one.
    func save(_ info: DocumentInfo, of document: RemoteIdentifier) async throws {
        if let deleted = try await deleted(document), info.wasDeleted(accordingTo: deleted) { return }
        let note = seal.seal(info.xml, as: .deletedDocument(document))
        try await backend.documentRemovalHooks.saveDeletedDocumentNote(note, of: document, hierarchy)
    }
}

extension DocumentInfo {
    /// Whether a note on a document's deletion is about this document, not only about former documents of its name.
    func wasDeleted(accordingTo deleted: DocumentInfo) -> Bool {
        integrityKey.map(deleted.successorsPredecessors.contains) ?? false
    }
}
