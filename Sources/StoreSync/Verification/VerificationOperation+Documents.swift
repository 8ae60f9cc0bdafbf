import Foundation
import Operations
import RemoteStorage

/// Checks of a document's info and structure.
extension VerificationOperation {
    /// Checks a document.
    ///
    /// Another device may delete it meanwhile. What was found then doesn't count.
    func checkDocument(
        _ document: DocumentHierarchy,
        _ own: RemoteIdentifier?,
        _ progress: TransferProgress
    ) async throws {
        let former = report.problems
        try await checkContent(of: document, own, progress)
        guard report.problems != former, try await isDeleted(document, progress.context) else { return }
        report.problems = former
        try await checkContent(of: document, own, progress)
    }

    /// Returns whether a document has been deleted, or is being deleted.
    private func isDeleted(_ document: DocumentHierarchy, _ context: OperationContext) async throws -> Bool {
        do {
            let memory = try await integrityMemory(of: document, context)
            let bytes = try await hooks.fetchFile(at: document.documentInfo)
            let info = bytes.flatMap { try? seal.documentInfo($0, document) }
            let isLost = bytes == nil ? try await wasLost(document, memory) : false
            return try await wasDeleted(document, info, isThere: bytes != nil || isLost)
        } catch let error as RemoteError where Self.isOfOneFile(error) {
            // It's a problem already that this file can't be read.
            return false
        }
    }

    private func checkContent(
        of document: DocumentHierarchy,
        _ own: RemoteIdentifier?,
        _ progress: TransferProgress
    ) async throws {
        let context = progress.context
        guard let found = try await checkInfo(of: document, context) else { return }
        let info = found.info
        // Other names are the software's that syncs the folder. TICoreDataSync's documents don't say which name is the key.
        for key in try await backend.documentRegistrationHooks.listIntegrityKeys(document)
        where info?.integrityKey ?? key == key {
            let role = ApplicationSeal.Role.integrityKey(key, of: document.document)
            // TICoreDataSync's own files may have any content.
            try await check(try document.integrityKey(key), role) { _ in }
        }
        try await checkStructure(document, info, own, context)
        let published = try await checkPublished(document, try await identity(of: document, info, context), progress)
        try await checkFolders(published, document, own, context)
        for stranger in published.strangers {
            report.warnings.append("\(stranger) doesn't belong there; it does no harm.")
            known.insert(stranger)
        }
    }

    /// What the check of a document's info found.
    private struct CheckedInfo {
        /// `nil` if it's missing or can't be read.
        var info: DocumentInfo?
    }

    /// Checks a document's info; `nil` if the document has nothing else to check, or is being removed.
    private func checkInfo(of document: DocumentHierarchy, _ context: OperationContext) async throws -> CheckedInfo? {
        let path = document.documentInfo
        // Before the info: another operation of this device may create the document meanwhile, or join its successor.
        let memory = try await integrityMemory(of: document, context)
        var info: DocumentInfo?
        let isThere = try await check(path) { [seal] in info = try seal.documentInfo($0, document) }
        if let info, let key = info.integrityKey, memory.isStranger(info, key, isEncrypted: seal.isEncrypted) {
            problem(path, .documentInfoPutBack)
        }
        let isLost = isThere ? false : try await wasLost(document, memory)
        if isLost { problem(path, .documentInfoMissing) }
        let isDeleted = try await wasDeleted(document, info, isThere: isThere || isLost)
        if isDeleted || !isThere {
            // An interrupted write leaves only a directory.
            guard try await hooks.listItems(in: document.root)?.isEmpty == false else { return nil }
            if isDeleted {
                report.warnings.append(StoreSyncError.removalInterrupted(document.document).message)
                return nil
            }
            if !isLost {
                report.warnings.append("\(path) is missing: the document's registration has not fully arrived.")
            }
        }
        return CheckedInfo(info: info)
    }

    /// Checks what devices have published of a document, as far as its identity is known, and returns its uploads.
    private func checkPublished(
        _ document: DocumentHierarchy,
        _ identity: DocumentIdentity?,
        _ progress: TransferProgress
    ) async throws -> PublishedStores {
        // Before the listing: a push of this device may end meanwhile.
        let memory = try await progress.context.blocking { [state, key = key(of: document)] in
            try identity.map { try state.rollbackMemory(for: key, $0.integrityKey) }
        }
        var published = try await PublishedStores.list(backend.wholeStoreUploadHooks, document)
        guard let identity, let memory else {
            report.warnings.append("Sealed files in \(document.root) were read but not opened, for lack of its info.")
            return published
        }
        try await checkClientNotes(on: .document(document, identity))
        try await checkRecentSyncs(document, identity)
        try await checkChangeSets(document, identity)
        let assembler = StoreAssembler(
            hierarchy: document,
            seal: seal,
            identity: identity,
            progress: progress,
            open: { [hooks] in try await hooks.openFile(at: $0, range: $1) }
        )
        published.manifests = try await checkUploads(published, memory, assembler)
        return published
    }

    private func integrityMemory(
        of document: DocumentHierarchy,
        _ context: OperationContext
    ) async throws -> IntegrityMemory {
        try await context.blocking { [state, key = key(of: document)] in try state.integrityMemory(for: key) }
    }

    /// Returns whether a document that this device knows is missing without an authentic note on its deletion.
    private func wasLost(_ document: DocumentHierarchy, _ memory: IntegrityMemory) async throws -> Bool {
        guard let known = memory.current else { return false }
        let documentHooks = backend.documentRegistrationHooks
        let note = try await documentHooks.fetchDeletedDocumentNote(document.document, hierarchy)
        return !seal.saysDeleted(note, of: document.document, integrityKey: known, hierarchy)
    }

    /// Returns the identity that the document's files are sealed for, by its info or by this device's memory.
    private func identity(
        of document: DocumentHierarchy,
        _ info: DocumentInfo?,
        _ context: OperationContext
    ) async throws -> DocumentIdentity? {
        let key = key(of: document)
        let remembered = try await context.blocking { [state] in try state.integrityKey(for: key) }
        let integrityKey = info?.integrityKey ?? remembered ?? (seal.isEncrypted ? nil : "")
        return integrityKey.map { DocumentIdentity(document: document.document, integrityKey: $0) }
    }

    private func checkStructure(
        _ document: DocumentHierarchy,
        _ info: DocumentInfo?,
        _ own: RemoteIdentifier?,
        _ context: OperationContext
    ) async throws {
        guard let info, let integrityKey = info.integrityKey else { return }
        let documentHooks = backend.documentRegistrationHooks
        var missing = try await documentHooks.missingDirectories(document)
        let keyFile = try document.integrityKey(integrityKey)
        if try await hooks.fetchItem(at: keyFile) == nil { missing.insert(keyFile) }
        guard !missing.isEmpty else { return }
        let documentKey = key(of: document)
        let isKnown = try await context.blocking { [state] in try state.integrityKey(for: documentKey) != nil }
        // A device that died while creating the document remembers no key yet, but the info names that device.
        guard repairs, isKnown || info.originalDevice == own?.rawValue else {
            for path in missing.sorted() {
                let creator = path == keyFile && seal.isEncrypted ? " by its creator" : ""
                problem(
                    path,
                    code: "missing",
                    """
                    It must always exist. The next registration of the document\(creator) creates it, or a verification with \
                    --repair on a device that has the document.
                    """
                )
            }
            return
        }
        try await documentHooks.createDirectories(missing.subtracting([keyFile]), document)
        if missing.contains(keyFile) {
            let content = DocumentInfo.integrityKeyFile(originalDevice: info.originalDevice)
            let sealed = seal.seal(content, as: .integrityKey(integrityKey, of: document.document))
            try await documentHooks.saveIntegrityKey(integrityKey, content: sealed, document)
        }
        for path in missing.sorted() { repaired(path) }
    }
}
