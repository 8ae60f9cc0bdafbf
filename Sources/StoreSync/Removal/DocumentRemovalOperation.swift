public import Operations
public import RemoteStorage

/// Removes a document from an application, for all devices.
///
/// The operation first saves a note of the deletion, sealed if the application is encrypted. From then on the document
/// counts as deleted: a device that knew it is told by ``StoreSyncError/Code/documentDeleted``. Then the operation
/// removes the content, and last the document's info and directories. As long as the info exists, no device can create
/// another document of that name. If the operation ends in between, running it again completes it.
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
    /// - Throws: ``StoreSyncError``, among others `documentNotFound`, `documentMissing`, `rolledBack`,
    ///   `applicationMissing`, `passwordRequired`, `deregistered` and `busy`; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> DocumentRemoval {
        try await translatingErrors {
            let lock = try await context.blocking { [access, document] in
                try access.state.lock(.document(access.key(document)), .exclusive, by: context.name)
            }
            defer { lock.release() }
            let seal = try await access.sealForRemoval(context)
            context.reportProgress(0.2)
            let notes = DeletedDocumentNotes(hierarchy: access.hierarchy, seal: seal, backend: access.backend)
            var result = DocumentRemoval(document: document)
            if let info = try await announce(seal, notes, context) {
                context.reportProgress(0.4)
                if try await !remove(info, context) {
                    result.warnings.append("Another device has created \(document) again. That new document stays.")
                }
            }
            try await context.blocking { [access, document] in
                try access.state.remove(access.state.replicas(of: access.key, document: document.rawValue))
            }
            return result
        }
    }

    /// Saves the note of the deletion, and returns the document's info as it's stored on the remote.
    ///
    /// Returns `nil` if the document was deleted before, and nothing of it is left.
    private func announce(
        _ seal: ApplicationSeal,
        _ notes: DeletedDocumentNotes,
        _ context: OperationContext
    ) async throws -> [UInt8]? {
        guard let stored = try await registration.fetchDocumentInfo(hierarchy) else {
            return try await takeName(seal, notes, context)
        }
        let path = hierarchy.documentInfo
        let info = try DocumentInfo(seal.open(stored, as: .documentInfo(document), at: path), at: path)
        let isStranger = try await context.blocking { [access, document] in
            guard let key = info.integrityKey else { return false }
            return try access.state.isStranger(
                info,
                key,
                isEncrypted: seal.isEncrypted,
                for: access.key(document)
            )
        }
        guard !isStranger else { throw StoreSyncError.documentInfoPutBack }
        try await notes.save(info, of: document)
        return stored
    }

    /// Takes the name of a deleted document of which something is left, so that no device creates another one meanwhile.
    ///
    /// An interrupted removal may have left it, or a device that was pushing.
    ///
    /// - Returns: The info that takes the name; `nil` if nothing is left.
    private func takeName(
        _ seal: ApplicationSeal,
        _ notes: DeletedDocumentNotes,
        _ context: OperationContext
    ) async throws -> [UInt8]? {
        let remembered = try await context.blocking { [access, document] in
            try access.state.integrityKey(for: access.key(document))
        }
        guard let deleted = try await notes.deleted(document) else {
            guard remembered == nil else { throw missing }
            throw StoreSyncError(
                .documentNotFound,
                "\(access.application) has no document \(document). storesync list documents lists its documents."
            )
        }
        // A note on a predecessor says nothing of the document that this device knows.
        if let remembered, seal.isEncrypted, !deleted.successorsPredecessors.contains(remembered) { throw missing }
        guard try await registration.listDocuments(access.hierarchy).contains(document) else { return nil }
        let bytes = seal.seal(deleted.xml, as: .documentInfo(document))
        guard try await registration.createDocumentInfo(bytes, hierarchy) else {
            throw StoreSyncError(.busy, "Another device is creating or removing \(document) now. Try again.")
        }
        return bytes
    }

    private var missing: StoreSyncError {
        var error = StoreSyncError.documentInfoMissing
        error.message = "\(hierarchy.documentInfo) is missing on the remote. \(error.message)"
        return error
    }

    /// Removes the content and then the structure.
    ///
    /// Listed content belongs to this document if the document's info is still there after the listing: uploads have
    /// unique names, so no later document has content at these paths.
    ///
    /// - Returns: `false` if another device has created a document of that name meanwhile.
    private func remove(_ info: [UInt8], _ context: OperationContext) async throws -> Bool {
        let content = try await removal.listDocumentContent(hierarchy)
        for paths in [content.files, content.directories] {
            let found = try await registration.fetchDocumentInfo(hierarchy)
            guard found == info else { return found == nil }
            try await removal.removeDocumentContent(paths)
            context.reportProgress(paths == content.files ? 0.6 : 0.8)
        }
        let found = try await registration.fetchDocumentInfo(hierarchy)
        guard found == info else { return found == nil }
        try await removal.removeDocumentStructure(hierarchy)
        return true
    }
}
