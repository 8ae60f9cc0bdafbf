import ContentDigests
import Operations
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// A file that was sent.
struct SentFile: Sendable {
    /// The manifest's entry for it.
    let entry: StoreManifest.File
    /// The file on the remote.
    let item: RemoteItem
    /// The digests of its blocks, if it's the store of an encrypted application.
    var blocks: BlockDigests?
}

/// Sends the files of an upload.
struct UploadTransfer: Sendable {
    let plan: UploadPlan
    let document: DocumentRegistration
    let hooks: any WholeStoreUploadHooks
    let compression: StoreCompression
    /// The journal of the push, by which an interrupted transfer is resumed.
    let journal: TransferJournal.File
    let workers: SealingWorkers
    let progress: TransferProgress

    var content: UploadContent { plan.content }
    var context: OperationContext { progress.context }
    var executor: (any TaskExecutor)? { context.blockingExecutor }

    /// Sends the store, or its delta, and the applied sets.
    ///
    /// - Returns: The files, the store first. Their entries are known only when they have been sent.
    /// - Throws: ``StoreSyncError``, and what the backend throws.
    func files() async throws -> [SentFile] {
        // If two devices share this memory, the upload belongs to the device that sent the store, and only that device
        // sends more. So a resumed push sends the applied sets after the store.
        let isNew = plan.interrupted == nil
        async let early = isNew ? appliedSets() : []
        let store = plan.isResumable ? try await resumedStore() : try await store()
        return [store] + (isNew ? try await early : try await appliedSets())
    }

    private func store() async throws -> SentFile {
        let source = try await content.sent.content(on: executor).counted(by: progress)
        let outgoing = OutgoingFile(source, as: form(of: .store), on: workers)
        let item = try await hooks.uploadFile(outgoing.content, to: path(of: .store))
        return try sent(outgoing, as: item)
    }

    private func appliedSets() async throws -> [SentFile] {
        let copies = WholeStoreFile.appliedSets.compactMap { file in content.appliedSets[file].map { (file, $0) } }
        return try await copies.concurrentMap { [self] file, copy in
            let source = try await TakenStore.copied(copy).content(on: executor).counted(by: progress)
            let outgoing = OutgoingFile(source, as: form(of: file), on: workers)
            let item = try await hooks.uploadFile(outgoing.content, to: path(of: file))
            return SentFile(entry: try outgoing.entry(for: file, size: copy.byteCount, root: nil), item: item)
        }
    }

    /// Returns the store's file after it was sent.
    func sent(_ outgoing: OutgoingFile, as item: RemoteItem) throws -> SentFile {
        let entry = try outgoing.entry(
            for: .store,
            size: content.taken.byteCount,
            root: content.contentRoot,
            delta: content.delta
        )
        return SentFile(entry: entry, item: item, blocks: content.digests?.blocks ?? outgoing.blocks)
    }

    func path(of file: WholeStoreFile) -> RemotePath { plan.manifest.path(of: file, in: document.hierarchy) }

    /// Returns how a file is sent.
    func form(of file: WholeStoreFile) -> OutgoingFile.Form {
        let seal = document.application.seal
        guard let key = seal.key else { return OutgoingFile.Form() }
        let role = plan.manifest.role(of: file, in: document.identity)
        var sealing = OutgoingFile.Sealing(key: key, context: seal.context(role), compression: compression)
        guard file == .store else { return OutgoingFile.Form(sealing: sealing) }
        if let interrupted = plan.interrupted { sealing.salt = interrupted.subject.salt }
        // If they are known already, they aren't needed once more.
        let blockSize = content.digests == nil ? DeltaPolicy.blockSize(content.taken.byteCount) : nil
        return OutgoingFile.Form(sealing: sealing, blockSize: blockSize)
    }
}
