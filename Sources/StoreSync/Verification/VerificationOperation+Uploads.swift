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
                \(name.atStart) was seen before and is missing now. \(Lineage.reasons(forMissing: name, among: manifests)) \
                If it's lost: push from this device with --whole, or run storesync vacuum if the document synchronizes.
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
        problem(
            path,
            code: "missing",
            "It has not arrived, or was removed. If it stays missing, push again, or run storesync vacuum if the document synchronizes."
        )
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
}
