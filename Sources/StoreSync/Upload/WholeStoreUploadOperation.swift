import Foundation
public import Operations
public import RemoteStorage
import SyncCryptography

/// Uploads a whole store as a new generation of its document.
///
/// The store may be open and written to meanwhile: the operation uploads one consistent snapshot. It uploads the files
/// to a new folder, and publishes them by creating the manifest, once and last. Until then every reader finds the
/// former generation, and from then on the new one, whatever dies when.
public actor WholeStoreUploadOperation: Operation {
    let request: WholeStoreUploadRequest
    let document: DocumentRegistration
    let hierarchy: DocumentHierarchy
    let backend: any RemoteBackend
    let hooks: any WholeStoreUploadHooks
    let state: StateDirectory
    /// The backend's capabilities, once they have been fetched.
    private(set) var capabilities: RemoteCapabilities = []
    /// The tags of the files that were sent, by name, if the backend derives tags from the content.
    private var sentTags: [String: RemoteTag] = [:]
    /// The uploads that this push must not rely on.
    private(set) var broken: Set<UploadName> = []

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
        hierarchy = document.hierarchy
        self.backend = backend
        hooks = backend.wholeStoreUploadHooks
        self.state = state
    }

    var key: DocumentKey { document.application.key(backend, document.document) }

    /// The snapshots of everything to upload, taken at one moment.
    struct Snapshots: Sendable {
        var store: TakenStore
        /// Copies of the applied sets, in the temporary directory.
        var appliedSets: [WholeStoreFile: StoreSnapshot]

        /// Returns how many bytes to send, with the delta in place of the store if there is one.
        func totalBytes(sending delta: DeltaFile?) -> Int64 {
            appliedSets.values.reduce(delta?.byteCount ?? store.byteCount) { $0 + $1.byteCount }
        }
    }

    /// Uploads the store.
    public func main(_ context: OperationContext) async throws -> WholeStoreUpload {
        try await translatingErrors {
            (capabilities, sentTags, broken) = (try await backend.capabilities(), [:], [])
            guard capabilities.contains(.exclusiveCreate) else {
                throw StoreSyncError(
                    .unsupportedStorage,
                    "\(backend.identity) can't create a file exclusively, so nothing can be published there safely."
                )
            }
            let store = try await context.blocking { [request] in try LocalStore(request.url) }
            let locks = try await context.blocking { [state, key] in
                [try state.lock(.document(key), .exclusive), try state.lock(.store(store.path), .exclusive)]
            }
            defer { for lock in locks { lock.release() } }
            try await context.blocking { StoreReplacement.restoreLog(of: store) }
            return try await upload(store, holding: capabilities.contains(.localSpeed), context)
        }
    }

    private func upload(
        _ store: LocalStore,
        holding: Bool,
        _ context: OperationContext
    ) async throws -> WholeStoreUpload {
        let expected = try await context.blocking { [state, key, document] in
            // A store that was moved is recorded under its new path, before anything is looked up by path.
            try state.locate(store, document: key)
            return try state.rollbackMemory(for: key, document.integrityKey).clients.union([document.application.client]
            )
        }
        async let listed = PublishedStores.read(hooks, document, expecting: expected)
        let base = try await request.isWhole ? nil : deltaBase(context)
        // Awaited before the snapshot is taken, so that the store isn't held while the remote answers.
        let published = try await makingRoom(in: try await listed, expecting: expected, context)
        if holding || base != nil {
            // To compare it with the last push, the store is always held, since that doesn't take long.
            let snapshots = try await snapshots(of: store, holding: true, context)
            let upload = try await upload(store, snapshots, published, base, holding: holding, context)
            if let upload { return upload }
        }
        let snapshots = try await snapshots(of: store, holding: false, context)
        guard let upload = try await upload(store, snapshots, published, base, holding: false, context) else {
            preconditionFailure("the upload of a copied store has a result")
        }
        return upload
    }

    /// Uploads the snapshots, and then releases the store.
    ///
    /// Returns `nil` if the store would have to be uploaded whole, but must not be held for so long.
    private func upload(
        _ store: LocalStore,
        _ snapshots: Snapshots,
        _ published: PublishedStores,
        _ base: DeltaBase?,
        holding: Bool,
        _ context: OperationContext
    ) async throws -> WholeStoreUpload? {
        do {
            return try await snapshots.store.limitingHold(by: context.clock, on: context.blockingExecutor) {
                try await upload(store, taken: snapshots, published, base, holding, context)
            }
        } catch {
            try? await context.blocking { try snapshots.store.release() }
            throw error
        }
    }

    private func upload(
        _ store: LocalStore,
        taken snapshots: Snapshots,
        _ published: PublishedStores,
        _ base: DeltaBase?,
        _ holding: Bool,
        _ context: OperationContext
    ) async throws -> WholeStoreUpload? {
        let client = try await client(published, context)
        let missing = try await refuseRollback(published, context)
        let former = base?.blocks.digests
        var (record, digests) = try await record(of: store, snapshots.store, since: former, published, context)
        let root = digests?.contentRoot
        if let (name, manifest) = try await unchanged(record, root, published, context) {
            try await context.blocking { [state, key, record] in
                try snapshots.store.release()
                // Recorded even if the store was recognized only by its content.
                if try state.store(at: record.path, document: key) != record { try state.commitPull(record) }
            }
            return result(client, snapshots, isUnchanged: true, name, in: manifest, published.manifests, warnings: [])
        }
        let plan = base?.plan(digests?.blocks, client, published)
        if plan == nil, !holding, case .held = snapshots.store {
            try await context.blocking { try snapshots.store.release() }
            return nil
        }
        let delta = try await plan.mapAsync { try await $0.write(from: snapshots.store, context) }
        let canResume = canResumeTransfer(of: delta?.taken ?? snapshots.store)
        let cutOff = canResume ? try await cutOffTransfer(of: store, root, delta, client, published, context) : nil
        let name =
            if let cutOff {
                UploadName(client: client, cutOff.subject.upload)
            } else {
                try await name(for: client, record, published, context)
            }
        var manifest = try await manifest(name, record, published, context)
        manifest.bases = delta?.bases ?? []
        record.contentRoot = root?.description
        record.contained = manifest.includes.union([name])
        record.base = name
        var upload = UploadRecord(document: key, name: name, store: record)
        // Recorded before any of it is on the remote, so that this device never mistakes it for another device's.
        try await context.blocking { [state, upload] in try state.recordUpload(upload) }
        async let removable = uploadsOfRemovedClients(including: record.contained, published)
        let blocks: BlockDigests?
        (manifest.files, blocks) =
            if canResume {
                try await resumeTransfer(manifest, snapshots, digests, delta, store, cutOff, context)
            } else {
                try await transfer(manifest, snapshots, digests, delta, context)
            }
        // A transfer that may have been published, or that this upload replaces, is never resumed.
        try await context.blocking { [state, key] in try state.pushJournal(of: key).remove() }
        if delta == nil { try await context.blocking { try snapshots.store.release() } }
        // These are known only now, and are recorded before any device can see the upload.
        upload.tags = sentTags
        upload.contentRoot = manifest[.store]?.contentRoot.description
        upload.store?.contentRoot = upload.contentRoot
        try await context.blocking { [state, upload] in try state.recordUpload(upload) }
        try await checkArrival(of: manifest)
        let (outdated, notes) = await removable
        try await publish(manifest)
        // Published: from here on, neither an error nor a cancellation makes the upload fail.
        let forgotten = try await warningOfFullDisk("published") {
            try await context.blocking { [state, upload] in try state.commitPush(upload, givingUp: missing) }
        }
        await remember(manifest, blocks, context)
        let manifests = published.manifests + [manifest]
        let warnings = forgotten + published.overlooked + unreadable(published, besides: record.contained) + notes
        let untidy = await tidyUp(manifest, outdated, published, context)
        return result(
            client,
            snapshots,
            isUnchanged: false,
            name,
            in: manifest,
            manifests,
            warnings: warnings + untidy
        )
    }

    var seal: ApplicationSeal { document.application.seal }

    /// Records uploads that this push must not rely on.
    func note(broken uploads: Set<UploadName>) { broken.formUnion(uploads) }

    /// Records a file that was sent.
    func note(_ item: RemoteItem) {
        if capabilities.contains(.contentTags) { sentTags[item.name] = item.tag }
    }

    // MARK: Taking snapshots

    private func snapshots(
        of store: LocalStore,
        holding: Bool,
        _ context: OperationContext
    ) async throws -> Snapshots {
        let directory = try await context.temporaryDirectory().appending(path: holding ? "held" : "copied")
        try context.fileManager.createDirectory(at: directory, withIntermediateDirectories: false)
        context.reportProgress(OperationProgress(fractionCompleted: 0, phase: "reading"))
        let applied = state.appliedSets(for: store.path, in: key)
        return try await context.blocking {
            let copy = directory.appending(path: WholeStoreFile.store.rawValue)
            var snapshots = Snapshots(
                store: try TakenStore.take(store, holding: holding, copyingTo: copy),
                appliedSets: [:]
            )
            for file in WholeStoreFile.appliedSets {
                let copy = directory.appending(path: file.rawValue)
                try applied.copyOrCreate(file, at: copy)
                snapshots.appliedSets[file] = try StoreSnapshot(at: copy)
            }
            return snapshots
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

    private func result(
        _ client: RemoteIdentifier,
        _ snapshots: Snapshots,
        isUnchanged: Bool,
        _ name: UploadName,
        in manifest: StoreManifest,
        _ manifests: [StoreManifest],
        warnings: [String]
    ) -> WholeStoreUpload {
        let heads = Lineage.heads(of: manifests).map(\.name)
        // If another upload includes this one, that upload continues it, so nothing has diverged.
        let diverged = heads.contains(name) ? heads.filter { $0 != name } : []
        let divergence = diverged.map {
            """
            \($0) holds edits that this store doesn't have. Pull it with --from \($0.client) to inspect it. Push with \
            --resolves once this store is to replace both.
            """
        }
        return WholeStoreUpload(
            client: client,
            generation: name.generation,
            bytes: snapshots.store.byteCount,
            storedBytes: manifest.files.reduce(0) { $0 + $1.storedSize },
            isEncrypted: seal.isEncrypted,
            isUnchanged: isUnchanged,
            divergedFrom: Set(diverged.map(\.client)).sorted(),
            warnings: document.allWarnings + divergence + warnings
        )
    }
}
