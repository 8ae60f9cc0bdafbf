import ContentDigests
import Foundation
public import Operations
public import RemoteStorage

/// Uploads a whole store as a new generation of its document.
///
/// The store may be open and written to meanwhile: the operation uploads one consistent snapshot. It uploads the files
/// to a new folder, and publishes them by creating the manifest, once and last. Until then every reader finds the
/// former generation, and from then on the new one, even if this device or the storage fails meanwhile.
public actor WholeStoreUploadOperation: Operation {
    let request: WholeStoreUploadRequest
    let document: DocumentRegistration
    let backend: any RemoteBackend
    let hooks: any WholeStoreUploadHooks
    let state: StateDirectory
    /// The backend's capabilities, once they have been fetched.
    private(set) var capabilities: RemoteCapabilities = []
    /// The uploads that this push must not rely on.
    var broken: Set<UploadName> = []

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: The store, and which uploads it replaces.
    ///   - document: The registered document that the store belongs to.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    public init(
        _ request: WholeStoreUploadRequest,
        document: DocumentRegistration,
        backend: any RemoteBackend,
        state: StateDirectory
    ) {
        self.request = request
        self.document = document
        self.backend = backend
        hooks = backend.wholeStoreUploadHooks
        self.state = state
    }

    var hierarchy: DocumentHierarchy { document.hierarchy }
    var seal: ApplicationSeal { document.application.seal }
    var key: DocumentKey { document.application.key(backend, document.document) }
    var catalog: UploadCatalog { UploadCatalog(hooks, document) }

    /// Uploads the store.
    ///
    /// - Throws: ``StoreSyncError``, among others `storeNotFound`, `storeChanged`, `unrelatedStore`,
    ///   `documentReplaced`, `documentSynchronizes`, `rolledBack`, `unsupportedStorage`, `cannotWrite` and `busy`;
    ///   `CancellationError`.
    public func main(_ context: OperationContext) async throws -> WholeStoreUpload {
        try await translatingErrors {
            (capabilities, broken) = (try await backend.capabilities(), [])
            try capabilities.requireExclusiveCreate(at: backend.identity)
            let store = try await context.blocking { [request, seal, state] in
                try LocalStore(request.url, pages: seal.pageHash, steps: state.steps, now: state.now)
            }
            let locks = try await context.blocking { [state, key] in
                [
                    try state.lock(.document(key), .exclusive, by: context.name),
                    try state.lock(.store(store.path), .exclusive, by: context.name),
                ]
            }
            defer { for lock in locks { lock.release() } }
            async let refusal: Void = request.baseline == nil ? refuseSynchronizedDocument(context) : ()
            try await context.blocking { StoreReplacement.restoreLog(of: store) }
            // Inspected before the snapshot is taken, so that the store isn't held while the remote answers.
            let target = try await target(for: store, context)
            try await removeLeftovers(of: store, target.published, context)
            try await refusal
            if let equal = try await equalUpload(byStatusOf: store, target, context) {
                return await finish(equal, byteCount: try store.byteCount, target, context)
            }
            do {
                return try await upload(store, holding: true, to: target, context)
            } catch let error as StoreSyncError where error.code == .storeChanged && request.baseline == nil {
                // A program wrote to the store while it was read in place. Copying it takes less time. What this attempt has
                // sent is listed too, so that it's removed in the end.
                let target = try await self.target(for: store, context)
                return try await upload(store, holding: false, to: target, context)
            }
        }
    }

    /// Removes what interrupted downloads left next to the store, unless a pull may resume it.
    private func removeLeftovers(
        of store: LocalStore,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws {
        let journal = state.pullJournal(of: store.path, in: key)
        try await context.blocking {
            let resumable = published.manifests.map {
                StoreReplacement.temporaryURL(for: store, of: $0.name, journal)
            }
            StoreReplacement.removeLeftovers(nextTo: store.url, but: resumable)
        }
    }

    /// Uploads the store's present state, read in place or from a copy.
    private func upload(
        _ store: LocalStore,
        holding: Bool,
        to target: UploadTarget,
        _ context: OperationContext
    ) async throws -> WholeStoreUpload {
        let content = try await content(of: store, holding: holding, context)
        do {
            return try await content.taken.limitingHold(by: context.clock, on: context.blockingExecutor) {
                switch try await decide(on: content, to: target, context) {
                case .nothing(let equal, let record):
                    try await recordUnchanged(record, of: content, context)
                    return await finish(equal, byteCount: content.taken.byteCount, target, context)
                case .send(let plan):
                    return try await carryOut(plan, to: target, context)
                }
            }
        } catch {
            await content.taken.discard(on: context.blockingExecutor)
            throw error
        }
    }

    /// Completes the push of a store that equals an upload, and returns its result.
    private func finish(
        _ equal: EqualUpload,
        byteCount: Int64,
        _ target: UploadTarget,
        _ context: OperationContext
    ) async -> WholeStoreUpload {
        let begun = state.begunUploads.warnings(about: equal.name, of: key, by: context.id)
        var result = result(equal.name, in: equal.holder, byteCount: byteCount, target)
        result.isUnchanged = begun == nil
        result.warnings += await (begun ?? []) + completePush(of: equal, target, context)
        result.warnings += await document.recordSync(of: target.client, at: state.now(), backend.recentSyncHooks)
        state.begunUploads.forgetUploads(of: key, by: context.id)
        return result
    }

    /// Records that the store equals an upload, even if it was recognized only by its content.
    private func recordUnchanged(
        _ record: StoreRecord,
        of content: UploadContent,
        _ context: OperationContext
    ) async throws {
        guard let root = record.contentRoot.flatMap(ContentRoot.init(hex:)) else {
            preconditionFailure("the record of a store that was compared has its digest")
        }
        try await content.taken.release(having: root, on: context.blockingExecutor)
        try await context.blocking { [state, key] in
            var new = record
            new.status = content.statusOfState
            var former = try state.store(at: record.path, document: key)
            former?.status = new.status
            if former == new { try state.noteStatus(of: new) } else { try state.noteUnchanged(new) }
        }
    }

    /// Sends what the plan says, publishes it, and removes what it supersedes.
    private func carryOut(
        _ plan: UploadPlan,
        to target: UploadTarget,
        _ context: OperationContext
    ) async throws -> WholeStoreUpload {
        var upload = UploadRecord(document: key, name: plan.manifest.name, store: plan.record)
        // Recorded before any of it is on the remote, so that this device never mistakes it for another device's.
        try await context.blocking { [state, upload] in try state.recordUpload(upload) }
        async let removable = uploadsOfRemovedClients(including: plan.record.contained, target.published)
        // Concurrently with other requests, since after the publication it would take round trips of its own. If this push isn't
        // published after all, the list of clients shows the time of the attempt.
        let isSmall = plan.content.totalBytes <= RemoteContent.chunkSize
        async let early =
            isSmall ? document.recordSync(of: target.client, at: state.now(), backend.recentSyncHooks) : []
        let (manifest, blocks) = try await send(plan, recordedAs: &upload, context)
        // During a long upload another device may have begun to synchronize the document. A short one takes no time that would
        // be worth another round trip.
        if !isSmall, request.baseline == nil { try await refuseSynchronizedDocument(context) }
        try await checkArrival(of: manifest)
        let replacing = givenUp(plan, target)
        state.begunUploads.note(manifest.name, of: key, by: context.id, replacing)
        let (outdated, notes) = await removable
        // A cancellation while it's published leaves to the next push to find out whether it was.
        try await publish(manifest)
        async let late = isSmall ? [] : document.recordSync(of: target.client, at: state.now(), backend.recentSyncHooks)
        // From here on, neither a cancellation nor an error makes the upload fail.
        let forgotten = try await context.shielded { [self, upload] in
            try await warningIfForgotten("published") {
                try await context.blocking { [state] in try state.commitPush(upload, givingUp: target.missing) }
            }
        }
        await remember(manifest, blocks, context)
        var result = result(manifest.name, in: manifest, byteCount: plan.content.taken.byteCount, target)
        result.warnings += forgotten + target.published.overlooked + replacing
        result.warnings += unreadable(target.published, besides: plan.record.contained) + notes
        result.warnings += await early + late
        result.warnings += await tidyUp(manifest, outdated, target.published, context)
        state.begunUploads.forgetUploads(of: key, by: context.id)
        return result
    }

    /// Refuses to upload a store of a document whose devices merge records: they wouldn't see it.
    private func refuseSynchronizedDocument(_ context: OperationContext) async throws {
        guard try await document.synchronizesRecords(backend, state, context) else { return }
        throw StoreSyncError(
            .documentSynchronizes,
            "\(document.document) is synchronized record by record, so whole stores aren't pushed: use storesync sync."
        )
    }

    // MARK: Snapshots

    private func content(
        of store: LocalStore,
        holding: Bool,
        _ context: OperationContext
    ) async throws -> UploadContent {
        let directory = try await context.temporaryDirectory().appending(path: holding ? "held" : "copied")
        do {
            try context.fileManager.createDirectory(at: directory, withIntermediateDirectories: false)
        } catch {
            throw StoreSyncError(writing: directory, error)
        }
        context.reportProgress(OperationProgress(fractionCompleted: 0, phase: "reading"))
        return try await context.blocking { [baseline = request.baseline] in
            let copy = directory.appending(path: WholeStoreFile.store.rawValue)
            // A baseline isn't what the store holds.
            let status = baseline == nil ? store.trustedStatus() : nil
            let taken =
                try baseline.map { .copied(try StoreSnapshot(at: $0.store, store.pages)) }
                ?? TakenStore.take(store, holding: holding, copyingTo: copy)
            return UploadContent(store: store, status: status, taken: taken, directory: directory)
        }
    }

    /// Copies the applied sets of a store.
    ///
    /// An interrupted pull must have been settled: if it has replaced the store, its applied sets belong to the store.
    func appliedSets(
        for content: UploadContent,
        _ context: OperationContext
    ) async throws -> [WholeStoreFile: StoreSnapshot] {
        let (store, directory) = (content.store, content.directory)
        let applied = state.appliedSets(for: store.path, in: key)
        return try await context.blocking { [baseline = request.baseline] in
            var sets: [WholeStoreFile: StoreSnapshot] = [:]
            for file in WholeStoreFile.appliedSets {
                let copy = directory.appending(path: file.rawValue)
                if let baseline, file == .appliedSyncChangeSets {
                    sets[file] = try StoreSnapshot(at: baseline.checkpoint, store.pages)
                } else {
                    try applied.copyOrCreate(file, at: copy)
                    sets[file] = try StoreSnapshot(at: copy, store.pages)
                }
            }
            return sets
        }
    }

    // MARK: Publishing

    private func publish(_ manifest: StoreManifest) async throws {
        let path = hierarchy.manifest(manifest.name)
        let bytes = manifest.xml
        // Parsed by the code that reads manifests, since an unreadable manifest must never be published.
        _ = try StoreManifest(bytes, named: manifest.name, at: path)
        let sealed = seal.seal(bytes, as: .manifest(manifest.name, of: document.identity))
        guard try await hooks.publishManifest(sealed, at: path) else {
            throw StoreSyncError(.busy, "Another file is at \(path) on the remote. Push again.")
        }
    }

    // MARK: The result

    private func unreadable(_ published: PublishedStores, besides contained: Set<UploadName>) -> [String] {
        published.unreadable.filter { !contained.contains($0.name) }.map { name, _ in
            """
            The manifest of \(name) has not fully arrived, or is damaged, so this upload doesn't include it. Push \
            again when it has arrived; storesync verify says what is damaged.
            """
        }
    }

    /// Returns the result.
    ///
    /// - Parameters:
    ///   - name: The upload that equals the store.
    ///   - manifest: The manifest of an upload on the remote that holds it: of that upload, or of a head that includes it.
    ///   - byteCount: The size of the store, in bytes.
    ///   - target: The uploads on the remote, before this push.
    /// - Returns: The result, with warnings about the registration and about divergence.
    private func result(
        _ name: UploadName,
        in manifest: StoreManifest,
        byteCount: Int64,
        _ target: UploadTarget
    ) -> WholeStoreUpload {
        let isPublished = target.published.manifests.contains { $0.name == manifest.name }
        let manifests = target.published.manifests + (isPublished ? [] : [manifest])
        let heads = Lineage.heads(of: manifests).map(\.name)
        // If another upload includes this one, that upload continues it, so nothing has diverged.
        let isHead = heads.contains(name)
        let diverged = isHead ? heads.filter { $0 != name } : []
        let divergence = diverged.map {
            """
            As far as this device knows, \($0) holds edits that this store doesn't have. Pull it with --from \($0.client) \
            --generation \($0.generation) to inspect it. Push with --resolves once this store is to replace both.
            """
        }
        return WholeStoreUpload(
            client: target.client,
            generation: name.generation,
            bytes: byteCount,
            storedBytes: manifest.files.reduce(0) { $0 + $1.storedSize },
            isEncrypted: seal.isEncrypted,
            isUnchanged: false,
            divergedFrom: Set(diverged.map(\.client)).sorted(),
            continuedBy: isHead ? [] : heads,
            warnings: document.allWarnings + identityWarnings(target.client) + divergence
        )
    }

    /// The warning that this device has become another client.
    private func identityWarnings(_ client: RemoteIdentifier) -> [String] {
        let former = document.application.client
        guard client != former else { return [] }
        return [
            """
            Another device used the identity of this one, or this one was restored from a backup: it continues as client \
            \(client). If no device uses \(former) any more: storesync remove client \(former).
            """
        ]
    }
}
