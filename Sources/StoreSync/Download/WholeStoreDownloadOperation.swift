import Foundation
public import Operations
public import RemoteStorage
import SyncCryptography

/// Downloads the newest whole store of a document, or one client's, and replaces the local store with it.
///
/// The newest is the upload that no other includes, whatever clocks say; if there are several, the user must choose. A
/// local store that was changed since it was last pushed or pulled isn't replaced unless the request says so. The
/// download is verified as a whole before the local store is touched, and the local store survives every failure.
public actor WholeStoreDownloadOperation: Operation {
    let request: WholeStoreDownloadRequest
    let document: DocumentRegistration
    let hierarchy: DocumentHierarchy
    let hooks: any WholeStoreDownloadHooks
    let state: StateDirectory
    let key: DocumentKey
    /// Called at every step of the replacement, so that tests can inspect what a crash would leave.
    private let faultPoint: StoreReplacement.FaultPoint

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: The local file, and the upload to download.
    ///   - document: The registered document.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    public init(
        _ request: WholeStoreDownloadRequest,
        document: DocumentRegistration,
        backend: any RemoteBackend,
        state: StateDirectory
    ) {
        self.init(request, document: document, backend: backend, state: state, faultPoint: { _ in })
    }

    init(
        _ request: WholeStoreDownloadRequest,
        document: DocumentRegistration,
        backend: any RemoteBackend,
        state: StateDirectory,
        faultPoint: @escaping StoreReplacement.FaultPoint
    ) {
        self.request = request
        self.document = document
        hierarchy = document.hierarchy
        hooks = backend.wholeStoreDownloadHooks
        self.state = state
        key = document.application.key(backend, document.document)
        self.faultPoint = faultPoint
    }

    /// Downloads the store.
    public func main(_ context: OperationContext) async throws -> WholeStoreDownload {
        try await translatingErrors {
            let store = try await context.blocking { [request] in try LocalStore(request.url) }
            let lock = try await context.blocking { [state] in try state.lock(.store(store.path), .exclusive) }
            defer { lock.release() }
            try await context.blocking { StoreReplacement.restoreLog(of: store) }
            return try await download(store, context)
        }
    }

    private func download(_ store: LocalStore, _ context: OperationContext) async throws -> WholeStoreDownload {
        let published = try await PublishedStores.read(hooks, document)
        let client = document.application.client
        let (record, memory) = try await context.blocking { [state, key, document] in
            try state.adoptInterruptedUploads(published.manifests, document: key)
            return (
                try state.locate(store, document: key),
                try state.rollbackMemory(for: key, document.integrityKey)
            )
        }
        var choice = StoreChoice(hooks: hooks, document: document, published: published, wanted: request.upload)
        let source = try await choice.source()
        let arrivals = (source.chain?.manifests ?? []).map { StoreArrival.url(of: $0, for: store) }
        try await context.blocking { try StoreReplacement.removeLeftovers(of: store, but: arrivals) }
        let missing = try refuseRollback(source, choice, memory)
        let local = try await localState(of: store, record, source, choice, context)
        let isUnchanged = local.root != nil && local.root == source.contentRoot
        if isUnchanged {
            await discard(store, context)
            try await fetchAppliedSets(source, store, nil, context)
        } else {
            let arrival = arrivals.first ?? StoreReplacement.temporaryURL(for: store)
            try await replace(store, with: source, arrivingAt: arrival, local, choice, context)
        }
        // The store is replaced: from here on, neither an error nor a cancellation makes the download fail.
        let forgotten = try await warningOfFullDisk("replaced") {
            try await remember(source, store, choice, memory, givingUp: missing, context)
        }
        let bytes = try await context.blocking { try store.byteCount }
        return WholeStoreDownload(
            client: client,
            from: source.client,
            generation: source.generation,
            bytes: bytes,
            storedBytes: source.storedBytes ?? bytes,
            isEncrypted: document.application.isEncrypted,
            isUnchanged: isUnchanged,
            warnings: document.allWarnings + choice.warnings + forgotten
        )
    }

    // MARK: Transferring

    private func replace(
        _ store: LocalStore,
        with source: StoreSource,
        arrivingAt arrival: URL,
        _ local: LocalState,
        _ choice: StoreChoice,
        _ context: OperationContext
    ) async throws {
        do {
            let progress = TransferProgress(context, phase: "downloading", totalBytes: source.totalBytes)
            var root = try await fetchStore(from: source, to: arrival, of: store, progress, context)
            try await fetchAppliedSets(source, store, progress, context)
            if source.manifest == nil {
                let copy = try await context.temporaryDirectory().appending(path: "arrival")
                root = try await context.blocking { try StoreSnapshot.check(download: arrival, copyingTo: copy) }
            }
            // If this device dies after the replacement and before recording it, it recognizes its own work later.
            let future = future(of: store, source, root, choice)
            try await context.blocking { [state] in try state.beginPull(future) }
            try Task.checkCancellation()
            let mode: StoreReplacement.Mode = request.replacement == .file ? .rename : .writeIntoOpenStore
            try await context.blocking { [mode, faultPoint] in
                try StoreReplacement.replace(
                    store,
                    with: arrival,
                    expecting: local.expectation,
                    mode: mode,
                    faultPoint: faultPoint
                )
            }
        } catch {
            // An interrupted download is kept for the next attempt, even if it was interrupted by expired credentials.
            let code = (error as? RemoteError)?.code
            if ![.unavailable, .unauthorized, .notAllowed].contains(code) { await discard(store, context) }
            throw await namingWholeUpload(error, source, choice)
        }
        await discard(store, context)
    }

    /// Returns the error of a damaged upload, with the name of an older upload that can be pulled.
    private func namingWholeUpload(
        _ error: any Error,
        _ source: StoreSource,
        _ choice: StoreChoice
    ) async -> any Error {
        let damages: Set<StoreSyncError.Code> = [.corrupt, .tampered, .orphan]
        guard var damage = error as? StoreSyncError, damages.contains(damage.code), let name = source.manifest?.name,
            let whole = await choice.whole(besides: name)
        else { return error }
        damage.message +=
            " \(whole) is complete: pull it with --from \(whole.client) --generation \(whole.generation)."
        return damage
    }

    /// Discards a partial download.
    private func discard(_ store: LocalStore, _ context: OperationContext) async {
        let journal = state.pullJournal(of: store.path, in: key)
        try? await context.blocking {
            try? StoreReplacement.removeLeftovers(of: store)
            try journal.remove()
        }
    }

    /// Downloads one file and checks that it is what was uploaded.
    func fetch(
        _ file: WholeStoreFile,
        from source: StoreSource,
        to url: URL,
        _ progress: TransferProgress,
        _ context: OperationContext
    ) async throws -> ContentRoot {
        let path = file.path(in: source.directory)
        guard let content = try await hooks.downloadFile(at: path, range: nil) else {
            throw StoreSyncError(.noUploadedStore, "\(path) has not arrived on the remote. Try again later.")
        }
        let received = try await receive(content.counted(by: progress), file, source, at: url, context)
        if let expected = source.manifest?[file] {
            guard received.root == expected.contentRoot, received.byteCount == expected.size else {
                throw StoreSyncError.notAsUploaded(path)
            }
        }
        return received.root
    }

    /// Writes the content to a file, and opens it on the way if the application is encrypted.
    ///
    /// Returns the file's size and digest.
    private func receive(
        _ content: RemoteContent,
        _ file: WholeStoreFile,
        _ source: StoreSource,
        at url: URL,
        _ context: OperationContext
    ) async throws -> (byteCount: Int64, root: ContentRoot) {
        let seal = document.application.seal
        guard let key = seal.key else {
            try await FileReceiver.receive(content, at: url, on: context)
            let received = try await RemoteContent.file(at: url, executor: context.blockingExecutor)
            return try await SealingWorkers.withWorkers { try await ContentRoot.of(received, on: $0) }
        }
        guard let manifest = source.manifest else {
            throw StoreSyncError(.tampered, "A store of an encrypted application has no manifest, so it isn't opened.")
        }
        let role = ApplicationSeal.Role.file(file, manifest.name, of: document.identity)
        do {
            let summary = try await key.pass(over: content, as: seal.context(role), salt: manifest[file]?.salt) {
                try await FileReceiver.receive($0, at: url, on: context)
            }
            return (summary.plainBytes, summary.contentRoot)
        } catch let error as CryptographyError {
            throw StoreSyncError(error, at: file.path(in: source.directory))
        }
    }

    private func fetchAppliedSets(
        _ source: StoreSource,
        _ store: LocalStore,
        _ progress: TransferProgress?,
        _ context: OperationContext
    ) async throws {
        let progress = progress ?? TransferProgress(context, phase: "downloading", totalBytes: source.totalBytes)
        let applied = state.appliedSets(for: store.path, in: key)
        for file in WholeStoreFile.appliedSets where source.files.contains(file) {
            let arrival = try await context.temporaryDirectory().appending(path: file.rawValue)
            _ = try await fetch(file, from: source, to: arrival, progress, context)
            try await context.blocking { try applied.stage(file, from: arrival) }
        }
    }

    // MARK: Remembering

    /// Returns the record of the store after its replacement.
    private nonisolated func future(
        of store: LocalStore,
        _ source: StoreSource,
        _ root: ContentRoot?,
        _ choice: StoreChoice
    ) -> StoreRecord {
        var record = StoreRecord(path: store.path, document: key, integrityKey: document.integrityKey)
        record.file = store.file
        record.contentRoot = root?.description
        if let name = source.manifest?.name {
            record.base = name
            record.contained = Lineage.contained(in: [name], choice.manifests)
        }
        return record
    }

    private func remember(
        _ source: StoreSource,
        _ store: LocalStore,
        _ choice: StoreChoice,
        _ memory: RollbackMemory,
        givingUp missing: [UploadName],
        _ context: OperationContext
    ) async throws {
        let isIncluded = choice.manifests.contains { manifest in
            source.manifest.map { memory.newest.contains(manifest.name) && manifest.includes.contains($0.name) }
                ?? false
        }
        try await context.blocking { [state, key] in
            try state.appliedSets(for: store.path, in: key).commit()
            // No manifest names the digest of a store of TICoreDataSync, so it's the one found by the download.
            let pending = try state.store(at: store.path, document: key)?.pending
            let root = source.contentRoot ?? pending.flatMap { ContentRoot(hex: $0.contentRoot) }
            let record = self.future(of: store, source, root, choice)
            try state.commitPull(record, isIncluded: isIncluded, givingUp: missing)
        }
    }
}
