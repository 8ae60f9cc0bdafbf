import ContentDigests
import Foundation
import Operations
import RemoteStorage
import SyncCryptography

/// Checks of a document: its info and structure, its uploads, and folders that aren't published.
extension VerificationOperation {
    func checkDocument(
        _ document: DocumentHierarchy,
        _ own: RemoteIdentifier?,
        _ progress: TransferProgress
    ) async throws {
        let (path, context) = (document.documentInfo, progress.context)
        var info: DocumentInfo?
        let role = ApplicationSeal.Role.documentInfo(document.document)
        let isThere = try await check(path, role) { info = try DocumentInfo($0, at: path) }
        if let info, try await isStranger(info, document, context) {
            problem(path, .documentInfoPutBack)
        }
        let isLost = isThere ? false : try await wasLost(document, context)
        if isLost { problem(path, .documentInfoMissing) }
        let isDeleted = try await wasDeleted(document, info, isThere: isThere || isLost)
        if isDeleted || !isThere {
            // An interrupted write leaves only a directory.
            guard try await hooks.listItems(in: document.root)?.isEmpty == false else { return }
            if isDeleted {
                report.warnings.append(StoreSyncError.removalInterrupted(document.document).message)
                return
            }
            if !isLost {
                report.warnings.append("\(path) is missing: the document's registration has not fully arrived.")
            }
        }
        for key in try await backend.documentRegistrationHooks.listIntegrityKeys(document) {
            let role = ApplicationSeal.Role.integrityKey(key, of: document.document)
            // TICoreDataSync's own files may have any content.
            try await check(try document.integrityKey(key), role) { _ in }
        }
        try await checkStructure(document, info, own, context)
        let identity = try await identity(of: document, info, context)
        // Before the listing: a push of this device may end meanwhile.
        let memory = try await context.blocking { [state, key = key(of: document)] in
            try identity.map { try state.rollbackMemory(for: key, $0.integrityKey) }
        }
        var published = try await PublishedStores.list(backend.wholeStoreUploadHooks, document)
        if let identity, let memory {
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
        } else {
            report.warnings.append("Sealed files in \(document.root) were read but not opened, for lack of its info.")
        }
        try await checkFolders(published, document, own, context)
        for stranger in published.strangers {
            report.warnings.append("\(stranger) doesn't belong there; it does no harm.")
            known.insert(stranger)
        }
    }

    private func isStranger(
        _ info: DocumentInfo,
        _ document: DocumentHierarchy,
        _ context: OperationContext
    ) async throws -> Bool {
        guard let integrityKey = info.integrityKey else { return false }
        let key = key(of: document)
        return try await context.blocking { [state, seal] in
            try state.isStranger(info, integrityKey, isEncrypted: seal.isEncrypted, for: key)
        }
    }

    /// Returns whether a document that this device knows is missing without an authentic note on its deletion.
    private func wasLost(_ document: DocumentHierarchy, _ context: OperationContext) async throws -> Bool {
        let key = key(of: document)
        guard let known = try await context.blocking({ [state] in try state.integrityKey(for: key) }) else {
            return false
        }
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
                problem(
                    path,
                    code: "missing",
                    "It must always exist. The next registration of the document creates it."
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

    /// Checks what is published, and returns the manifests that open.
    private func checkUploads(
        _ published: PublishedStores,
        _ memory: RollbackMemory,
        _ assembler: StoreAssembler
    ) async throws -> [StoreManifest] {
        let context = assembler.progress.context
        let url = try await context.temporaryDirectory().appending(path: assembler.identity.document.rawValue)
        var deltas = DeltaVerification(assembler, at: url)
        defer { deltas.removeFile() }
        damaged = []
        for name in published.published.sorted(by: { ($0.client, $0.generation) < ($1.client, $1.generation) }) {
            try await checkUpload(name, &deltas)
        }
        try await context.blocking { [state, damaged, key = key(of: assembler.hierarchy)] in
            // Only for documents that this device is registered with: verifying registers nothing.
            if try state.integrityKey(for: key) != nil { try state.setDamagedUploads(damaged, for: key) }
        }
        checkMemory(memory, published, deltas.manifests, assembler.hierarchy)
        return deltas.manifests
    }

    /// Compares the remote with this device's memory of the document.
    private func checkMemory(
        _ memory: RollbackMemory,
        _ published: PublishedStores,
        _ manifests: [StoreManifest],
        _ document: DocumentHierarchy
    ) {
        // A manifest that doesn't open is reported as such.
        let witnessed = Lineage.witnessed(by: manifests).subtracting(published.names)
        for name in witnessed.union(memory.missing(from: published.names, manifests)).sorted() {
            problem(
                document.manifest(name),
                code: "rolledBack",
                """
                \(name.atStart) was seen before and is missing now. \(Lineage.reasons(forMissing: name, among: manifests))
                """
            )
        }
    }

    private func checkUpload(_ name: UploadName, _ deltas: inout DeltaVerification) async throws {
        let (document, identity) = (deltas.assembler.hierarchy, deltas.assembler.identity)
        let path = document.manifest(name)
        var manifest: StoreManifest?
        let role = ApplicationSeal.Role.manifest(name, of: identity)
        try await check(path, role) { manifest = try StoreManifest($0, named: name, at: path) }
        guard let manifest else { return }
        deltas.note(manifest)
        let problemsBefore = report.problems.count
        try await checkFiles(of: manifest, &deltas)
        if report.problems.count > problemsBefore { damaged.insert(name) }
    }

    private func checkFiles(of manifest: StoreManifest, _ deltas: inout DeltaVerification) async throws {
        let assembler = deltas.assembler
        for file in manifest.files {
            let path = manifest.path(of: file.file, in: assembler.hierarchy)
            known.insert(path)
            if file.file == .store, manifest.isDelta {
                try await checkDelta(manifest, at: path, &deltas)
                continue
            }
            let role = ApplicationSeal.Role.file(file.file, manifest.name, of: assembler.identity)
            do {
                guard let content = try await hooks.openFile(at: path) else {
                    missingFile(path)
                    continue
                }
                let found = try await digest(of: content, role, salt: file.seal?.salt, assembler.progress)
                count(path, found.sealedBytes)
                guard
                    found.sealedBytes != file.storedSize || found.byteCount != file.size
                        || found.root != file.contentRoot
                else { continue }
                problem(
                    path,
                    code: "corrupt",
                    "It isn't what was uploaded. Push the store again from a device that has it, or restore the file from a backup."
                )
            } catch let error as CryptographyError {
                let error = StoreSyncError(error, ofStoreFileAt: path)
                count(path, file.storedSize)
                problem(path, code: "\(error.code)", error.message)
            } catch let error as RemoteError where Self.isOfOneFile(error) {
                unreadable(path, error)
            }
        }
    }

    private func missingFile(_ path: RemotePath) {
        problem(path, code: "missing", "It has not arrived, or was removed. Push again if it stays missing.")
    }

    /// Checks a store that is a delta, with what it builds on.
    private func checkDelta(
        _ manifest: StoreManifest,
        at path: RemotePath,
        _ deltas: inout DeltaVerification
    ) async throws {
        guard let item = try await hooks.fetchItem(at: path) else { return missingFile(path) }
        count(path, item.size)
        guard item.size == manifest[.store]?.storedSize else {
            problem(path, code: "corrupt", "Its length isn't what was uploaded. Push the store again.")
            return
        }
        do {
            try await deltas.check(manifest)
        } catch let error as RemoteError where Self.isOfOneFile(error) {
            unreadable(path, error)
        } catch let error as StoreSyncError where error.code == .noUploadedStore {
            problem(path, code: "missing", error.message)
        } catch let error as StoreSyncError {
            problem(path, code: "\(error.code)", error.message)
        }
    }

    /// Returns the digest and the size of a store's file, opened if it's sealed, and its size on the remote, in bytes.
    private func digest(
        of content: RemoteContent,
        _ role: ApplicationSeal.Role,
        salt: [UInt8]?,
        _ progress: TransferProgress
    ) async throws -> (root: ContentRoot, byteCount: Int64, sealedBytes: Int64) {
        let pages = seal.pageHash
        guard let key = seal.key else {
            let digest = try await digest(of: content, progress)
            return (digest.root, digest.byteCount, digest.byteCount)
        }
        let opening = FileOpening(context: seal.context(role), salt: salt)
        var root = ContentRootHasher(pages).finalize()
        let summary = try await key.pass(over: content.counted(by: progress), opening) { opened in
            root = try await SealingWorkers.withWorkers { try await ContentRoot.of(opened, pages, on: $0) }.root
        }
        return (root, summary.plainBytes, summary.sealedBytes)
    }

    func digest(
        of content: RemoteContent,
        _ progress: TransferProgress
    ) async throws -> (root: ContentRoot, byteCount: Int64) {
        var hasher = ContentRootHasher()
        for try await chunk in content.counted(by: progress) {
            try Task.checkCancellation()
            hasher.update(chunk)
        }
        return (hasher.finalize(), hasher.byteCount)
    }

    /// Checks folders without a manifest, and the files with fixed names.
    private func checkFolders(
        _ published: PublishedStores,
        _ document: DocumentHierarchy,
        _ own: RemoteIdentifier?,
        _ context: OperationContext
    ) async throws {
        let key = key(of: document)
        let ours = try await context.blocking { [state] in try state.uploads(for: key) }
        let (names, abandoned) = (published.names, published.abandoned(among: ours))
        for folder in published.folders where !names.contains(folder) {
            for file in WholeStoreFile.allCases { known.insert(file.path(in: document.upload(folder))) }
            known.insert(document.delta(folder))
            let path = document.upload(folder)
            guard folder.client == own, ours.contains(where: { $0.name == folder }) else {
                report.warnings.append("\(path) isn't published: that client's push is in progress or was interrupted.")
                continue
            }
            guard abandoned.contains(folder) else {
                report.warnings.append(
                    "\(path) isn't removed: its manifest, or that of an upload which builds on it, may still arrive."
                )
                continue
            }
            guard repairs else {
                report.warnings.append(
                    "\(path) is left from an interrupted push of this device: --repair removes it."
                )
                continue
            }
            try await withoutPush(of: document, context) { published in
                guard !published.names.contains(folder) else { return }
                try await hooks.removeLeftover(at: path)
                repaired(path)
            }
        }
        for (client, files) in published.fixedNames {
            for file in files.keys { known.insert(file.path(in: document.wholeStores(client))) }
        }
        // A sealed tree has no fixed names.
        if let own, !seal.isEncrypted { try await checkFixedNames(of: own, published, document, context) }
    }

    /// Repairs something while no push of this device is in progress; a warning says if one is.
    ///
    /// - Parameters:
    ///   - document: The document.
    ///   - context: The operation's context.
    ///   - body: Gets what is published now: a push may have ended since the verification began.
    /// - Throws: ``StoreSyncError``, and what `body` throws.
    private func withoutPush(
        of document: DocumentHierarchy,
        _ context: OperationContext,
        _ body: (PublishedStores) async throws -> Void
    ) async throws {
        let lock: FileLock
        do {
            lock = try await context.blocking { [state, key = key(of: document)] in
                try state.lock(.document(key), .exclusive, by: context.name)
            }
        } catch let error as StoreSyncError where error.code == .busy {
            report.warnings.append("\(document.root) isn't repaired while this device pushes it: repair again later.")
            return
        }
        defer { lock.release() }
        try await body(PublishedStores.list(backend.wholeStoreUploadHooks, document))
    }

    /// Checks that the fixed names hold this client's newest store, since an interrupted push may have left an older
    /// one.
    private func checkFixedNames(
        of own: RemoteIdentifier,
        _ published: PublishedStores,
        _ document: DocumentHierarchy,
        _ context: OperationContext
    ) async throws {
        guard let newest = published.newest.first(where: { $0.client == own }) else { return }
        func refresh(_ fixed: RemotePath, from source: RemotePath) async throws {
            guard repairs else {
                report.warnings.append("\(fixed) is older than this device's newest upload: --repair refreshes it.")
                return
            }
            try await withoutPush(of: document, context) { published in
                guard published.newest.contains(newest) else { return }
                try await backend.wholeStoreUploadHooks.refreshFixedName(from: source, to: fixed)
                repaired(fixed)
            }
        }
        let directory = document.upload(newest)
        for file in WholeStoreFile.allCases {
            let (source, fixed) = (file.path(in: directory), file.path(in: document.wholeStores(own)))
            known.insert(fixed)
            guard let expected = try await hooks.openFile(at: source), let actual = try await hooks.openFile(at: fixed)
            else {
                if try await hooks.fetchItem(at: source) != nil { try await refresh(fixed, from: source) }
                continue
            }
            let (wanted, found) = try await (ContentRootHasher.digest(expected), ContentRootHasher.digest(actual))
            guard wanted != found else { continue }
            try await refresh(fixed, from: source)
        }
    }
}

extension ContentRootHasher {
    fileprivate static func digest(_ content: RemoteContent) async throws -> ContentRoot {
        var hasher = ContentRootHasher()
        for try await chunk in content { hasher.update(chunk) }
        return hasher.finalize()
    }
}
