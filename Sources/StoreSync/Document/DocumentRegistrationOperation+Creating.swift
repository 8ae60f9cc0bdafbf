import Foundation
import Operations
import RemoteStorage

/// Creating a document, unless something of it is there already.
extension DocumentRegistrationOperation {
    func create(_ remote: RemoteState, _ context: OperationContext) async throws -> DocumentRegistration {
        let remembered = try await context.blocking { [state, key] in try state.integrityKey(for: key) }
        if !wasDeleted(remembered, remote), let other = try await joinArrived(remembered, remote, context) {
            return other
        }
        if let store = request.missingStore, remote.deleted == nil {
            let absence = "\(application.application) has no document \(request.document)"
            throw StoreSyncError.nothingToSynchronize(store, absence)
        }
        // Before the question and the advice: what is left has to be removed first.
        if remote.deleted != nil, let other = try await joinSuccessor(context) { return other }
        guard request.mayCreateDocument else { throw creationNotAllowed(remote) }
        try await confirmCreation(remote, context)
        let info = newInfo(remote)
        var remote = remote
        if remote.deleted != nil {
            // The answer to the question may have taken long.
            if let other = try await joinSuccessor(context) { return other }
            // Directories of the former document's clients may be left.
            remote.clients = []
        }
        // The document exists from here on. If another device was faster, this device joins that one's document.
        let sealed = application.seal.seal(info.xml, as: .documentInfo(request.document))
        guard try await hooks.createDocumentInfo(sealed, hierarchy) else {
            let remote = try await inspect()
            guard let info = remote.info else {
                throw StoreSyncError(.busy, "Another device is registering \(request.document) now. Try again.")
            }
            return try await join(info, remote, context)
        }
        let key = try integrityKey(info, remote, nil)
        return try await complete(Found(info: info, key: key, didCreate: true), remote, context)
    }

    /// The error of a request that creates no document.
    private func creationNotAllowed(_ remote: RemoteState) -> StoreSyncError {
        remote.deleted != nil
            ? StoreSyncError(
                .documentDeleted,
                "\(request.document) was deleted. Pushing it with --recreate creates it again."
            )
            : StoreSyncError(
                .documentNotFound,
                "\(application.application) has no document \(request.document). Check the name; a push or sync creates it."
            )
    }

    /// Refuses a document that can't be created now under its name, and asks the user about any other one.
    ///
    /// - Throws: ``StoreSyncError``; `CancellationError` if the user doesn't want the document.
    private func confirmCreation(_ remote: RemoteState, _ context: OperationContext) async throws {
        async let listed = hooks.listDocuments(application.hierarchy)
        async let deletedNow = remote.deleted == nil ? deletedDocument() : nil
        try await request.document.refuseLookalike(among: listed)
        guard try await deletedNow == nil else { throw removalInProgress }
        try request.userInfo.refuseUnreadable(with: request.description, of: "\(request.document)")
        let question: Question = remote.deleted == nil ? .createDocument : .recreateDeletedDocument
        guard try await context.pause(awaiting: "\(question)", { try await delegate(question) }) else {
            throw CancellationError()
        }
    }

    /// The info of the document that this device creates, which may succeed a deleted one.
    private func newInfo(_ remote: RemoteState) -> DocumentInfo {
        DocumentInfo(
            document: request.document.rawValue,
            description: request.description,
            userInfo: request.userInfo,
            originalDevice: application.client.rawValue,
            originalDeviceDescription: application.clientDescription,
            integrityKey: UUID().uuidString,
            isRecreated: remote.deleted != nil,
            predecessors: remote.deleted?.successorsPredecessors ?? []
        )
    }

    /// Joins the successor of a deleted document that another device has just created.
    ///
    /// - Returns: `nil` if there is none, and nothing of the deleted document is left.
    /// - Throws: ``StoreSyncError/Code/documentDeleted`` if something of it is left: it would be found in its successor.
    private func joinSuccessor(_ context: OperationContext) async throws -> DocumentRegistration? {
        let content = try await hooks.backend.documentRemovalHooks.listDocumentContent(hierarchy)
        guard !content.files.isEmpty || !content.directories.isEmpty else { return nil }
        let remote = try await inspect()
        guard let info = remote.info else { throw StoreSyncError.removalInterrupted(request.document) }
        return try await join(info, remote, context)
    }

    /// Whether an authentic note says that the document was deleted which this device knows, or finds on the remote.
    ///
    /// A note on a predecessor says nothing of its successor.
    private func wasDeleted(_ remembered: String?, _ remote: RemoteState) -> Bool {
        guard let deleted = remote.deleted else { return false }
        guard application.isEncrypted else { return true }
        let keys = remote.keys.filter(DocumentHierarchy.isIntegrityKey)
        return Set(keys + [remembered].compactMap(\.self)).isSubset(of: deleted.successorsPredecessors)
    }

    /// Joins a document that another device has just created.
    ///
    /// - Returns: `nil` if this device doesn't know the document, and nothing of it has arrived.
    /// - Throws: ``StoreSyncError/Code/documentMissing`` if its info is missing: it must not be created a second time.
    private func joinArrived(
        _ remembered: String?,
        _ remote: RemoteState,
        _ context: OperationContext
    ) async throws -> DocumentRegistration? {
        if remembered == nil, try await !hasArrivedInPart(remote) { return nil }
        let now = try await inspect()
        if let info = now.info { return try await join(info, now, context) }
        guard now.deleted == nil || remote.deleted != nil else { throw removalInProgress }
        throw StoreSyncError(
            .documentMissing,
            """
            \(hierarchy.documentInfo) is missing on the remote, and no authentic note says that \(request.document) \
            was deleted. It is still arriving, or was lost or hidden. Nothing was created. Try again when everything \
            has arrived; else restore that file from a backup, or give the document up with storesync remove document \
            \(request.document) on a device that has synchronized it.
            """
        )
    }

    /// Whether something of the document is there without its info.
    ///
    /// Services that replicate a folder carry its files in any order, and no empty directories.
    private func hasArrivedInPart(_ remote: RemoteState) async throws -> Bool {
        guard remote.clients.isEmpty else { return true }
        // Then no directory has anything in it.
        guard remote.missing != Set(hierarchy.directories.dropFirst()) else { return false }
        let content = try await hooks.backend.documentRemovalHooks.listDocumentContent(hierarchy)
        return (content.files + content.directories).contains(where: hierarchy.isContent)
    }

    private var removalInProgress: StoreSyncError {
        StoreSyncError(.busy, "Another device is removing \(request.document) now. Try again.")
    }
}
