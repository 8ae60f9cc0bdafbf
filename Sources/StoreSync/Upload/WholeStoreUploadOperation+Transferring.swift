import Operations
import RemoteStorage
import SyncCryptography

/// Sends the files to the remote.
extension WholeStoreUploadOperation {
    /// Uploads the files.
    ///
    /// Returns their entries in the manifest, which for sealed files are known only after sealing, and the digests of
    /// the store's blocks if it's sealed.
    func transfer(
        _ manifest: StoreManifest,
        _ snapshots: Snapshots,
        _ digests: ContentSummary?,
        _ delta: DeltaFile?,
        _ context: OperationContext
    ) async throws -> ([StoreManifest.File], BlockDigests?) {
        let progress = TransferProgress(context, phase: "uploading", totalBytes: snapshots.totalBytes(sending: delta))
        let executor = context.blockingExecutor
        let (hooks, seal, hierarchy, identity) = (hooks, seal, hierarchy, document.identity)
        return try await SealingWorkers.withWorkers { workers in
            async let applied = sendAppliedSets(snapshots, manifest, progress, workers, executor)
            let content = try await (delta?.taken ?? snapshots.store).content(on: executor)
            let outgoing = OutgoingFile(
                content.counted(by: progress),
                as: manifest.role(of: .store, in: identity),
                seal,
                blockSize: digests == nil ? DeltaPolicy.blockSize(snapshots.store.byteCount) : nil,
                on: workers
            )
            note(try await hooks.uploadFile(outgoing.content, to: manifest.path(of: .store, in: hierarchy)))
            let store = try outgoing.stored(as: .store, snapshots.store.byteCount, digests?.contentRoot, delta)
            return ([store] + (try await applied), digests?.blocks ?? outgoing.blocks)
        }
    }

    func sendAppliedSets(
        _ snapshots: Snapshots,
        _ manifest: StoreManifest,
        _ progress: TransferProgress,
        _ workers: SealingWorkers,
        _ executor: (any TaskExecutor)?
    ) async throws -> [StoreManifest.File] {
        let (hooks, seal, hierarchy, identity) = (hooks, seal, hierarchy, document.identity)
        return try await together(WholeStoreFile.appliedSets.filter { snapshots.appliedSets[$0] != nil }) {
            [self] file in
            guard let copy = snapshots.appliedSets[file] else {
                preconditionFailure("only existing applied sets are sent")
            }
            let taken = TakenStore.copied(copy)
            let root = try await taken.contentRoot(on: executor)
            let content = try await taken.content(on: executor)
            let role = manifest.role(of: file, in: identity)
            let outgoing = OutgoingFile(content.counted(by: progress), as: role, seal, blockSize: nil, on: workers)
            await note(try await hooks.uploadFile(outgoing.content, to: manifest.path(of: file, in: hierarchy)))
            return try outgoing.stored(as: file, copy.byteCount, root, nil)
        }
    }
}
