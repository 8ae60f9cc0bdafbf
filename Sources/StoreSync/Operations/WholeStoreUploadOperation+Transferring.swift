import Operations
import RemoteStorage
import SyncCryptography

/// Sending the files to the remote.
extension WholeStoreUploadOperation {
    /// Uploads the files.
    ///
    /// Returns them as the manifest lists them: what a sealed one is and takes is known only when it has been sealed. And
    /// the digests of the store's blocks, if it's sealed.
    func transfer(
        _ manifest: StoreManifest,
        _ snapshots: Snapshots,
        _ digests: ContentSummary?,
        _ delta: DeltaFile?,
        _ context: OperationContext
    ) async throws -> ([StoreManifest.File], BlockDigests?) {
        let saved = delta.map { snapshots.store.byteCount - $0.byteCount } ?? 0
        let progress = TransferProgress(context, phase: "uploading", totalBytes: snapshots.totalBytes - saved)
        let executor = context.blockingExecutor
        let (hooks, seal, hierarchy, identity) = (hooks, seal, hierarchy, document.identity)
        let sent = try await SealingWorkers.withWorkers { workers in
            try await together(WholeStoreFile.allCases) { file in
                let copy = snapshots.appliedSets[file]
                let taken = copy.map(TakenStore.copied) ?? snapshots.store
                let delta = copy == nil ? delta : nil
                let content =
                    if let delta {
                        try await RemoteContent.file(at: delta.url, executor: executor)
                    } else {
                        try await taken.content(on: executor)
                    }
                let outgoing = OutgoingFile(
                    content.counted(by: progress),
                    as: manifest.role(of: file, in: identity),
                    seal,
                    // Those of the store, if they aren't known.
                    blockSize: copy == nil && digests == nil ? DeltaPolicy.blockSize(taken.byteCount) : nil,
                    on: workers
                )
                try await hooks.uploadFile(outgoing.content, to: manifest.path(of: file, in: hierarchy))
                let root = copy?.contentRoot ?? digests?.contentRoot
                return (try outgoing.stored(as: file, taken.byteCount, root, delta), outgoing.blocks)
            }
        }
        return (sent.map(\.0), digests?.blocks ?? sent.compactMap(\.1).first)
    }
}
