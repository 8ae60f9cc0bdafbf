import ContentDigests
import Operations
import RemoteStorage
import SyncCryptography

/// Sends the files of an upload, which no device sees before its manifest is published.
extension WholeStoreUploadOperation {
    /// Sends what the plan says, and records it; the manifest, which makes it visible, is published after that.
    ///
    /// - Parameters:
    ///   - plan: What is sent.
    ///   - upload: This device's record of the upload, which gets what is known only after sending.
    ///   - context: The operation.
    /// - Returns: The manifest to publish, and the digests of the store's blocks if they are known.
    /// - Throws: ``StoreSyncError``, and what the backend throws.
    func send(
        _ plan: UploadPlan,
        recordedAs upload: inout UploadRecord,
        _ context: OperationContext
    ) async throws -> (manifest: StoreManifest, blocks: BlockDigests?) {
        let files = try await send(plan, context)
        var manifest = plan.manifest
        manifest.files = files.map(\.entry)
        upload.tags = tags(of: files)
        upload.contentRoot = manifest.store.contentRoot.description
        upload.store?.contentRoot = upload.contentRoot
        upload.store?.status = try await context.blocking { plan.content.statusOfState }
        try await context.blocking { [state, upload] in try state.recordUpload(upload) }
        return (manifest, files.lazy.compactMap(\.blocks).first)
    }

    private func send(_ plan: UploadPlan, _ context: OperationContext) async throws -> [SentFile] {
        let progress = TransferProgress(context, phase: "uploading", totalBytes: plan.content.totalBytes)
        let journal = state.pushJournal(of: key)
        let files: [SentFile]
        do {
            files = try await SealingWorkers.withWorkers { workers in
                let transfer = UploadTransfer(
                    plan: plan,
                    document: document,
                    hooks: hooks,
                    compression: request.compression,
                    journal: journal,
                    workers: workers,
                    progress: progress
                )
                return try await transfer.files()
            }
        } catch is CancellationError where plan.isResumable {
            // The backend has discarded what it had kept. What is on the remote is left to the next push, since its removal
            // may take long.
            try? await context.shielded { try await context.blocking { try journal.remove() } }
            throw CancellationError()
        }
        // When a delta was written, the store was released.
        if plan.content.delta == nil, let root = files.first?.entry.contentRoot {
            try await plan.content.taken.release(having: root, on: context.blockingExecutor)
        }
        // A transfer that may have been published, or that this upload replaces, is never resumed.
        try await context.blocking { try journal.remove() }
        return files
    }

    /// Checks that the upload's files have arrived, each with the length that was sent.
    ///
    /// Uploads of small files aren't checked: each file is one request, and the check would cost another round trip.
    ///
    /// - Parameter manifest: The manifest to be published.
    /// - Throws: ``StoreSyncError/Code/corrupt`` if a file is missing or has another length.
    func checkArrival(of manifest: StoreManifest) async throws {
        guard manifest.files.contains(where: { $0.storedSize > RemoteContent.chunkSize }) else { return }
        let listed = try await hooks.listFiles(in: hierarchy.upload(manifest.name)) ?? []
        let sizes = Dictionary(listed.map { ($0.name, $0.size) }) { $1 }
        for file in manifest.files {
            let path = manifest.path(of: file.file, in: hierarchy)
            let size = path.lastComponent.flatMap { sizes[$0] }
            guard size != file.storedSize else { continue }
            throw StoreSyncError(
                .corrupt,
                """
                \(path) on the remote has \(size.map { "\($0)" } ?? "no") bytes, and \(file.storedSize) were sent. \
                Nothing was published. Push again.
                """
            )
        }
    }

    /// The tags of the files that were sent, by name, if another tag means another content there.
    private func tags(of files: [SentFile]) -> [String: RemoteTag] {
        guard capabilities.contains(.contentTags) else { return [:] }
        return files.reduce(into: [:]) { $0[$1.item.name] = $1.item.tag }
    }
}
