public import Foundation
import Logging
public import Operations
public import RemoteStorage
import SyncCryptography

/// Uploads a whole store as a new generation of its document.
///
/// The store may be open and written to meanwhile: what is uploaded is one consistent state of it. Files go into a folder
/// that nobody has seen before; the manifest, created once and last, publishes it. Until then every reader finds the
/// former generation, from then on the new one, whatever dies when.
public actor WholeStoreUploadOperation: Operation {
    private let url: URL
    let document: DocumentRegistration
    let hierarchy: DocumentHierarchy
    private let backend: any RemoteBackend
    let hooks: any WholeStoreUploadHooks
    let state: StateDirectory
    /// What the backend guarantees, once it was asked.
    private(set) var capabilities: RemoteCapabilities = []

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - url: The store, an SQLite database or any other file.
    ///   - document: The registered document that it is a store of.
    ///   - backend: Where to upload it.
    ///   - state: This device's memory.
    public init(store url: URL, document: DocumentRegistration, backend: any RemoteBackend, state: StateDirectory) {
        self.url = url
        self.document = document
        hierarchy = document.hierarchy
        self.backend = backend
        hooks = backend.wholeStoreUploadHooks
        self.state = state
    }

    var key: DocumentKey { document.application.key(backend, document.document) }

    /// Everything that is uploaded, taken at one moment.
    struct Snapshots: Sendable {
        var store: TakenStore
        /// Copies of the applied sets, in the temporary directory.
        var appliedSets: [WholeStoreFile: StoreSnapshot]

        /// How many bytes are sent: the store's, or those of a delta in its place.
        func totalBytes(sending delta: DeltaFile?) -> Int64 {
            appliedSets.values.reduce(delta?.byteCount ?? store.byteCount) { $0 + $1.byteCount }
        }
    }

    /// Uploads.
    public func main(_ context: OperationContext) async throws -> WholeStoreUpload {
        try await translatingErrors {
            capabilities = try await backend.capabilities()
            guard capabilities.contains(.exclusiveCreate) else {
                throw StoreSyncError(
                    .unsupportedStorage,
                    "\(backend.identity) can't create a file exclusively, so nothing can be published there safely."
                )
            }
            let store = try await context.blocking { [url] in try LocalStore(url) }
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
        async let listed = PublishedStores.list(hooks, hierarchy)
        let base = try await DeltaBase.find(state.pushedBlocks(of: key), of: document, key, hooks, context)
        // Before the store is taken: it isn't held while the remote answers.
        let published = try await listed
        if holding || base != nil {
            // To be compared with the last push it's held in any case: that doesn't take long.
            let snapshots = try await snapshots(of: store, holding: true, context)
            let upload = try await upload(store, snapshots, published, base, holding: holding, context)
            if let upload { return upload }
        }
        let snapshots = try await snapshots(of: store, holding: false, context)
        guard let upload = try await upload(store, snapshots, published, base, holding: false, context) else {
            preconditionFailure("a store that was copied is uploaded")
        }
        return upload
    }

    /// Uploads what was taken, and ends the reading.
    ///
    /// Returns `nil` if a store that must not be held so long would have to be uploaded whole.
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
        let former = base?.blocks.digests
        var (record, digests) = try await record(of: store, snapshots.store, since: former, client, published, context)
        let root = digests?.contentRoot
        if let base = record.base, let root, record.contentRoot == root.description,
            published.published.contains(where: { $0.client.rawValue == base.client && $0.reference == base.upload })
        {
            let name = try UploadName(client: RemoteIdentifier(base.client), base.upload)
            if let manifest = try await PublishedStores.readManifests([name], hooks, document).manifests.first {
                try await context.blocking { try snapshots.store.release() }
                return result(client, snapshots, isUnchanged: true, published: manifest, [manifest], warnings: [])
            }
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
                try await name(for: client, published, context)
            }
        var manifest = manifest(name, record.vector)
        manifest.bases = delta?.bases ?? []
        record.contentRoot = root?.description
        record.vector = manifest.includes
        record.base = StoreBase(client: client.rawValue, upload: name.reference)
        var upload = UploadRecord(document: key, client: client.rawValue, reference: name.reference, store: record)
        // Before anything of it is on the remote, so that this device never takes it for somebody else's.
        try await context.blocking { [state, upload] in try state.recordUpload(upload) }
        async let read = PublishedStores.readManifests(published.considered, hooks, document)
        let blocks: BlockDigests?
        (manifest.files, blocks) =
            if canResume {
                try await resumeTransfer(manifest, snapshots, digests, delta, store, cutOff, context)
            } else {
                try await transfer(manifest, snapshots, digests, delta, context)
            }
        // What may have been published is never gone on with, nor what this takes the place of.
        try await context.blocking { [state, key] in try state.pushJournal(of: key).remove() }
        if delta == nil { try await context.blocking { try snapshots.store.release() } }
        if root == nil {
            // Known only now, and before anybody can see the upload.
            upload.store.contentRoot = manifest[.store]?.contentRoot.description
            try await context.blocking { [state, upload] in try state.recordUpload(upload) }
        }
        try await checkArrival(of: manifest)
        let (others, _) = try await read
        // Those whose manifests open: a name alone says nothing.
        manifest.seen = PublishedStores.highestGenerations(of: others + [manifest])
        try await publish(manifest)
        // Published: from here on nothing makes the upload fail, a cancellation neither.
        let forgotten = try await warningOfFullDisk("published") {
            try await context.blocking { [state, upload] in try state.commitPush(upload) }
        }
        await remember(manifest, blocks, context)
        let kept = KeptUploads(published, others + [manifest], by: manifest)
        let warnings = forgotten + published.overlooked + (await tidyUp(manifest, kept, published, context))
        return result(client, snapshots, isUnchanged: false, published: manifest, others, warnings: warnings)
    }

    var seal: ApplicationSeal { document.application.seal }

    // MARK: Taking the store

    private func snapshots(
        of store: LocalStore,
        holding: Bool,
        _ context: OperationContext
    ) async throws -> Snapshots {
        // One for each time that it's taken.
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

    // MARK: Who uploads, and what as

    /// This client; or a new one, if somebody else has published under its name.
    private func client(_ published: PublishedStores, _ context: OperationContext) async throws -> RemoteIdentifier {
        let client = document.application.client
        let known = try await context.blocking { [state, key] in
            Set(try state.uploads(for: key, client: client.rawValue).map(\.reference))
        }
        guard !published.references(of: client).isSubset(of: known) else { return client }
        context.logger.notice("this device's identity lives twice, on a copy of it: going on as a new client")
        let application = document.application
        let registration = backend.applicationRegistrationHooks
        let path = application.hierarchy.deviceInfo(client)
        let former = try await registration.fetchDeviceInfo(of: client, application.hierarchy)
            .flatMap { try? DeviceInfo(seal.open($0, as: .deviceInfo(client), at: path), at: path) }
        let new = try await context.blocking { [state, key] in
            let lock = try state.lock(.application(key.application), .exclusive)
            defer { lock.release() }
            // Whoever pushes another document may have found it out a moment before.
            if let other = try state.peekClientIdentifier(for: key.application), other != client.rawValue {
                return try RemoteIdentifier(other)
            }
            return try RemoteIdentifier(state.replaceClientIdentifier(for: key.application))
        }
        let info = DeviceInfo(
            client: new.rawValue,
            description: application.clientDescription,
            userInfo: former?.userInfo ?? [:]
        )
        let sealed = seal.seal(info.xml, as: .deviceInfo(new))
        try await registration.createClientDeviceDirectory(new, application.hierarchy)
        try await registration.saveDeviceInfo(sealed, of: new, application.hierarchy)
        try await backend.documentRegistrationHooks.createClientDirectories(new, hierarchy)
        return new
    }

    /// What this device remembers of the store, with pushes and pulls that were carried out but cut off before they were
    /// remembered; and the store's digests, if it remembers anything to compare those with.
    private func record(
        of store: LocalStore,
        _ taken: TakenStore,
        since former: BlockDigests?,
        _ client: RemoteIdentifier,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> (StoreRecord, ContentSummary?) {
        let certain = try await published.certain(of: client, key, state, hooks, document, context)
        let record = try await context.blocking { [state, key] in
            try state.adoptInterruptedUploads(client: client.rawValue, published: certain, document: key)
            return try state.store(at: store.path, document: key)
        }
        // The manifest of a file that isn't sealed names its digest, which nothing finds out on the way.
        guard record != nil || !seal.isEncrypted else {
            return (StoreRecord(path: store.path, document: key, integrityKey: document.integrityKey), nil)
        }
        let executor = context.blockingExecutor
        let digests = try await taken.digests(withBlocks: seal.isEncrypted, since: former, on: executor)
        guard let record = record?.settled(for: digests.contentRoot.description) else {
            return (StoreRecord(path: store.path, document: key, integrityKey: document.integrityKey), digests)
        }
        guard !record.mustReplace, record.integrityKey == document.integrityKey else {
            let remedy =
                published.published.isEmpty
                ? "Nobody has pushed a store since: if this one is still wanted, copy it to another place and push the copy."
                : "Pull it (with --overwrite if you give up local changes) before you push."
            throw StoreSyncError(
                .documentReplaced,
                """
                \(document.document) was deleted and made anew, or this client was removed from it, since \(store.path) \
                was last synchronized. \(remedy)
                """
            )
        }
        return (record, digests)
    }

    private func name(
        for client: RemoteIdentifier,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> UploadName {
        let remembered = try await context.blocking { [state, key] in
            (try state.uploads(for: key, client: client.rawValue).map(\.reference.generation)
                + [state.rollbackMemory(for: key).highestGeneration]).max() ?? 0
        }
        let highest = max((published.published + published.folders).map(\.generation).max() ?? 0, remembered)
        guard highest < UploadReference.generations.upperBound else {
            throw StoreSyncError(
                .corrupt,
                """
                Generation \(highest) of \(document.document) is the last that there can be, so it was forged or damaged on \
                the remote. Push the store as another document.
                """
            )
        }
        return UploadName(client: client, generation: highest + 1, upload: UUID().uuidString)
    }

    /// What publishes the upload, but for what is known only later: how the files are stored, and what others have published.
    private func manifest(_ name: UploadName, _ vector: GenerationVector) -> StoreManifest {
        var includes = vector
        includes.insert(client: name.client.rawValue, name.reference)
        return StoreManifest(name: name, created: Date(), files: [], includes: includes, seen: [:])
    }

    // MARK: Publishing

    private func publish(_ manifest: StoreManifest) async throws {
        let path = hierarchy.manifest(manifest.name)
        let sealed = seal.seal(manifest.xml, as: .manifest(manifest.name, of: document.identity))
        guard try await hooks.publishManifest(sealed, at: path) else {
            throw StoreSyncError(.busy, "Something else stands at \(path) on the remote. Push again.")
        }
    }

    // MARK: What comes of it

    private func result(
        _ client: RemoteIdentifier,
        _ snapshots: Snapshots,
        isUnchanged: Bool,
        published manifest: StoreManifest,
        _ others: [StoreManifest],
        warnings: [String]
    ) -> WholeStoreUpload {
        let diverged =
            isUnchanged
            ? [] : PublishedStores.heads(of: others + [manifest]).map(\.name.client).filter { $0 != client }
        let divergence = diverged.map {
            "The store of client \($0) holds edits that this one doesn't. Pull it to go on with it instead."
        }
        return WholeStoreUpload(
            client: client,
            generation: manifest.name.generation,
            bytes: snapshots.store.byteCount,
            storedBytes: manifest.files.reduce(0) { $0 + $1.storedSize },
            isEncrypted: seal.isEncrypted,
            isUnchanged: isUnchanged,
            divergedFrom: diverged,
            warnings: divergence + warnings
        )
    }
}
