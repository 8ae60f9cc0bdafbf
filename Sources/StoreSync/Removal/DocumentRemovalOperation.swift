import Foundation
public import Operations
public import RemoteStorage

/// Removes a document from an application, for all devices.
///
/// The operation first saves a note of the deletion, sealed if the application is encrypted. From then on the document
/// counts as deleted: a device that knew it is told by ``StoreSyncError/Code/documentDeleted``. Then the operation
/// removes the content. As long as the info exists, no device can create another document of that name. Last the info and
/// the directories are moved to paths of their own, and removed there. If another device has created a document of that
/// name just then, that new document is moved back. If the operation ends in between, running it again completes it.
///
/// ```swift
/// let removal = try await supervisor.add(DocumentRemovalOperation(of: document, access)).value
/// ```
///
/// This device forgets what merging overwrote in the document. Local stores stay as they are.
public actor DocumentRemovalOperation: Operation {
    private let document: RemoteIdentifier
    private let access: ApplicationAccess
    private let hierarchy: DocumentHierarchy
    private let registration: any DocumentRegistrationHooks
    private let removal: any DocumentRemovalHooks
    /// The document whose deletion is announced: an attempt that is repeated removes no document that was created since.
    private var announced: Announced?

    /// A document whose deletion is announced.
    private struct Announced {
        let info: DocumentInfo
        /// Its info as it's stored on the remote; `nil` if nothing is left at the document's paths.
        let stored: [UInt8]?
    }

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - document: The document to remove.
    ///   - access: The application that it belongs to.
    public init(of document: RemoteIdentifier, _ access: ApplicationAccess) {
        self.document = document
        self.access = access
        hierarchy = access.hierarchy.document(document)
        registration = access.backend.documentRegistrationHooks
        removal = access.backend.documentRemovalHooks
    }

    /// Removes the document.
    ///
    /// - Throws: ``StoreSyncError``, among others `documentNotFound`, `rolledBack`, `applicationMissing`,
    ///   `passwordRequired`, `deregistered` and `busy`; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> DocumentRemoval {
        try await translatingErrors {
            let lock = try await access.state.lock(.document(access.key(document)), .exclusive, for: context)
            defer { lock.release() }
            let seal = try await access.sealForRemoval(context)
            context.reportProgress(0.2)
            let notes = DeletedDocumentNotes(hierarchy: access.hierarchy, seal: seal, backend: access.backend)
            var result = DocumentRemoval(document: document)
            let announced = if let announced { announced } else { try await announce(seal, notes, context) }
            self.announced = announced
            context.reportProgress(0.4)
            var isRemoved = true
            if let stored = announced.stored { isRemoved = try await remove(stored, context) }
            if try await !removeAsides(announced.info, seal) { isRemoved = false }
            if isRemoved {
                // A device that had created the document again may just have removed the note of the former deletion.
                try await notes.save(announced.info, of: document)
            } else {
                result.warnings.append("Another device has created \(document) again. That new document stays.")
            }
            try await context.blocking { [access, document] in
                try access.state.remove(access.state.replicas(of: access.key, document: document.rawValue))
            }
            return result
        }
    }

    /// Saves the note of the deletion, unless the document was deleted before.
    private func announce(
        _ seal: ApplicationSeal,
        _ notes: DeletedDocumentNotes,
        _ context: OperationContext
    ) async throws -> Announced {
        guard let stored = try await registration.fetchDocumentInfo(hierarchy) else {
            return try await takeName(seal, notes, context)
        }
        let info = try seal.documentInfo(stored, hierarchy)
        let isStranger = try await context.blocking { [access, document] in
            guard let key = info.integrityKey else { return false }
            let memory = try access.state.integrityMemory(for: access.key(document))
            return memory.isStranger(info, key, isEncrypted: seal.isEncrypted)
        }
        guard !isStranger else { throw StoreSyncError.documentInfoPutBack }
        try await notes.save(info, of: document)
        return Announced(info: info, stored: stored)
    }

    /// Takes the name of a deleted document of which something is left, so that no device creates another one meanwhile.
    ///
    /// An interrupted removal may have left it, or a device that was pushing.
    private func takeName(
        _ seal: ApplicationSeal,
        _ notes: DeletedDocumentNotes,
        _ context: OperationContext
    ) async throws -> Announced {
        let deleted = try await deletedDocument(seal, notes, context)
        guard try await registration.listDocuments(access.hierarchy).contains(document) else {
            return Announced(info: deleted, stored: nil)
        }
        let bytes = seal.seal(deleted.xml, as: .documentInfo(document))
        guard try await registration.createDocumentInfo(bytes, hierarchy) else {
            throw StoreSyncError(.busy, "Another device is creating or removing \(document) now. Try again.")
        }
        return Announced(info: deleted, stored: bytes)
    }

    /// The document that an authentic note says was deleted.
    ///
    /// If there is no note on the document that this device knows, although its info is missing, the user's wish to remove it
    /// is reason enough to save one: without a note, no device could use the name any more.
    private func deletedDocument(
        _ seal: ApplicationSeal,
        _ notes: DeletedDocumentNotes,
        _ context: OperationContext
    ) async throws -> DocumentInfo {
        let (remembered, former) = try await context.blocking { [access, document] in
            let key = access.key(document)
            return (try access.state.integrityKey(for: key), try access.state.formerIntegrityKeys(for: key))
        }
        let deleted = try await notes.deleted(document)
        guard let remembered else {
            if let deleted { return deleted }
            throw access.documentNotFound(document)
        }
        // A note on a predecessor says nothing of the document that this device knows.
        if let deleted, !seal.isEncrypted || deleted.successorsPredecessors.contains(remembered) { return deleted }
        var lost = DocumentInfo(deleted: document)
        lost.integrityKey = remembered
        lost.predecessors = former
        try await notes.save(lost, of: document)
        return lost
    }

    /// Removes the content, and moves the structure out of the way.
    ///
    /// Listed content belongs to this document if the document's info is still there after the listing: uploads have
    /// unique names, so no later document has content at these paths. The origin's name isn't unique, so it's moved.
    ///
    /// - Returns: `false` if another device has created a document of that name meanwhile.
    private func remove(_ info: [UInt8], _ context: OperationContext) async throws -> Bool {
        let content = try await removal.listDocumentContent(hierarchy)
        let files = content.files.filter { $0 != hierarchy.syncOrigin }
        for paths in [files, content.directories] {
            let found = try await registration.fetchDocumentInfo(hierarchy)
            guard found == info else { return found == nil }
            try await removal.removeDocumentContent(paths)
            context.reportProgress(paths == files ? 0.6 : 0.8)
        }
        let found = try await registration.fetchDocumentInfo(hierarchy)
        guard found == info else { return found == nil }
        try await removal.moveDocumentAside(hierarchy, to: access.hierarchy.documentAside(document, UUID()))
        return true
    }

    /// Removes what was moved out of the way, by this removal or by others that ended in between.
    ///
    /// Between the last look at the info and the move, another device may have completed the removal, and a third one may
    /// have created the document again.
    ///
    /// - Returns: `false` if a new document had been moved, and was moved back.
    private func removeAsides(_ deleted: DocumentInfo, _ seal: ApplicationSeal) async throws -> Bool {
        var areRemoved = true
        for aside in try await removal.listDocumentsAside(document, access.hierarchy) {
            let info = try await registration.fetchDocumentInfo(aside).map { try seal.documentInfo($0, aside) }
            // TICoreDataSync's documents name no key.
            if info.map({ $0.wasDeleted(accordingTo: deleted) || $0.integrityKey == nil }) ?? true {
                try await removal.removeDocumentStructure(aside)
            } else {
                try await removal.moveDocumentBack(aside, to: hierarchy)
                areRemoved = false
            }
        }
        return areRemoved
    }
}
