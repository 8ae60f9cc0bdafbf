import ContentDigests
import Foundation
import Operations
import RemoteStorage
import SyncCryptography

/// Checks of the uploads that are published.
extension VerificationOperation {
    /// Checks what is published, and returns the manifests that open.
    func checkUploads(
        _ published: PublishedStores,
        _ memory: RollbackMemory,
        _ assembler: StoreAssembler
    ) async throws -> [StoreManifest] {
        let context = assembler.progress.context
        let url = try await context.temporaryDirectory().appending(path: assembler.identity.document.rawValue)
        var deltas = DeltaVerification(assembler, at: url)
        defer { deltas.removeFile() }
        damaged = []
        var present = published.names
        for name in published.published.sorted(by: { ($0.client, $0.generation) < ($1.client, $1.generation) }) {
            if try await !checkUpload(name, &deltas) { present.remove(name) }
        }
        let opened = Set(deltas.manifests.map(\.name))
        try await context.blocking { [state, damaged, key = key(of: assembler.hierarchy)] in
            // Only for documents that this device is registered with: verifying registers nothing.
            guard try state.integrityKey(for: key) != nil else { return }
            // Another client's manifest that doesn't open may still be arriving.
            let own = try state.peekClientIdentifier(for: key.application)
            let noted = damaged.filter { opened.contains($0) || $0.client.rawValue == own }
            try state.setDamagedUploads(noted, for: key)
        }
        try await checkMemory(memory, present, deltas.manifests, assembler)
        return deltas.manifests
    }

    /// Compares the remote with this device's memory of the document.
    ///
    /// A manifest in `names` that isn't among `manifests` doesn't open. It's reported as such, and isn't missing.
    private func checkMemory(
        _ memory: RollbackMemory,
        _ names: Set<UploadName>,
        _ manifests: [StoreManifest],
        _ assembler: StoreAssembler
    ) async throws {
        var (missing, manifests) = (Lineage.missing(from: names, manifests, memory), manifests)
        guard !missing.isEmpty else { return }
        // A device may have published since the listing, and have removed what its upload includes.
        let now = try await PublishedStores.list(backend.wholeStoreUploadHooks, assembler.hierarchy)
        for name in now.names.subtracting(names).sorted() {
            if let manifest = try await readManifest(name, assembler).manifest { manifests.append(manifest) }
        }
        var memory = memory
        memory.formIntersection(
            try await assembler.progress.context.blocking { [state, key = key(of: assembler.hierarchy)] in
                try state.rollbackMemory(for: key, assembler.identity.integrityKey)
            }
        )
        missing = Lineage.missing(from: now.names, manifests, memory)
        for name in missing.sorted() {
            problem(
                assembler.hierarchy.manifest(name),
                code: "rolledBack",
                """
                \(name.atStart) was seen before and is missing now. \(Lineage.reasons(forMissing: name, among: manifests)) \
                If it's lost: push from this device with --whole, or run storesync vacuum if the document synchronizes.
                """
            )
        }
    }

    /// Reads a manifest, reports it if it doesn't open, and returns it with whether its file exists.
    private func readManifest(
        _ name: UploadName,
        _ assembler: StoreAssembler
    ) async throws -> (manifest: StoreManifest?, isThere: Bool) {
        let path = assembler.hierarchy.manifest(name)
        var manifest: StoreManifest?
        let isThere = try await check(path) { [seal] bytes in
            manifest = try seal.manifest(bytes, named: name, of: assembler.identity, at: path)
        }
        return (manifest, isThere)
    }

    /// Checks an upload, and returns whether it's still published.
    ///
    /// Its owner may remove it meanwhile, the manifest before the other files. What was found then doesn't count.
    private func checkUpload(_ name: UploadName, _ deltas: inout DeltaVerification) async throws -> Bool {
        let read = try await readManifest(name, deltas.assembler)
        guard let manifest = read.manifest else {
            if read.isThere { damaged.insert(name) }
            return read.isThere
        }
        deltas.manifests.append(manifest)
        let former = report.problems
        var failure: RemoteError?
        do {
            try await checkFiles(of: manifest, &deltas)
        } catch let error as RemoteError where error.code == .unavailable {
            failure = error
        }
        guard failure != nil || report.problems != former else { return true }
        guard try await hooks.fetchFile(at: deltas.assembler.hierarchy.manifest(name)) != nil else {
            report.problems = former
            return false
        }
        if let failure { throw failure }
        damaged.insert(name)
        return true
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
                problem(path, .notAsUploaded(path))
            } catch let error as CryptographyError {
                count(path, file.storedSize)
                problem(path, StoreSyncError(error, ofStoreFileAt: path))
            } catch let error as RemoteError where Self.isOfOneFile(error) {
                unreadable(path, error)
            }
        }
    }

    private func missingFile(_ path: RemotePath) {
        problem(
            path,
            code: "missing",
            "It has not arrived, or was removed. If it stays missing, push with --whole, or run storesync vacuum if the document synchronizes."
        )
    }

    /// Errors that say something of an upload.
    ///
    /// Others, as that of a full disk on this device, end the verification.
    private static let codesOfUploads: [StoreSyncError.Code] = [.corrupt, .tampered, .orphan, .unsupportedFormat]

    /// Checks a store that is a delta, with what it builds on.
    private func checkDelta(
        _ manifest: StoreManifest,
        at path: RemotePath,
        _ deltas: inout DeltaVerification
    ) async throws {
        guard let item = try await hooks.fetchItem(at: path) else { return missingFile(path) }
        count(path, item.size)
        guard item.size == manifest.store.storedSize else {
            return problem(path, .notAsUploaded(path))
        }
        do {
            try await deltas.check(manifest)
        } catch let error as RemoteError where Self.isOfOneFile(error) {
            unreadable(path, error)
        } catch let error as StoreSyncError where error.code == .noUploadedStore {
            problem(path, code: "missing", error.message)
        } catch let error as StoreSyncError where Self.codesOfUploads.contains(error.code) {
            problem(path, error)
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
            let digest = try await digest(of: content.counted(by: progress))
            return (digest.root, digest.byteCount, digest.byteCount)
        }
        let opening = FileOpening(context: seal.context(role), salt: salt)
        var root = ContentRootHasher(pages).finalize()
        let summary = try await key.pass(over: content.counted(by: progress), opening) { opened in
            root = try await SealingWorkers.withWorkers { try await ContentRoot.of(opened, pages, on: $0) }.root
        }
        return (root, summary.plainBytes, summary.sealedBytes)
    }

    /// Returns the digest and the size of a file as it's on the remote.
    func digest(of content: RemoteContent) async throws -> (root: ContentRoot, byteCount: Int64) {
        var hasher = ContentRootHasher()
        for try await chunk in content {
            try Task.checkCancellation()
            hasher.update(chunk)
        }
        return (hasher.finalize(), hasher.byteCount)
    }
}
