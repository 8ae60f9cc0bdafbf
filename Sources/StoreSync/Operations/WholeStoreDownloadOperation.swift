import Foundation
public import Operations
public import RemoteStorage
import SyncCryptography

/// Downloads the newest whole store of a document, or one client's, and puts it in the local store's place.
///
/// The newest is the one that no other contains, whatever clocks say; if several are, somebody has to choose. A local store
/// that was changed since it was last pushed or pulled isn't replaced unless that is asked for. The download is verified
/// as a whole before the local store is touched, and the local store survives every failure.
public actor WholeStoreDownloadOperation: Operation {
    private let request: WholeStoreDownloadRequest
    let document: DocumentRegistration
    let hierarchy: DocumentHierarchy
    let hooks: any WholeStoreDownloadHooks
    let state: StateDirectory
    let key: DocumentKey
    /// Called at every step of the replacement: where tests look at what a crash would leave.
    private let faultPoint: StoreReplacement.FaultPoint

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: Where the store goes, and which one is taken.
    ///   - document: The registered document.
    ///   - backend: Where to download it from.
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

    /// Downloads.
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
        let published = try await PublishedStores.list(hooks, hierarchy)
        let client = document.application.client
        let certain = try await published.certain(of: client, key, state, hooks, document, context)
        let record = try await context.blocking { [state, key] in
            try state.adoptInterruptedUploads(client: client.rawValue, published: certain, document: key)
            return try state.store(at: store.path, document: key)
        }
        var choice = StoreChoice(
            hooks: hooks,
            document: document,
            published: published,
            client: request.client
        )
        let source = try await choice.newest()
        let arrivals = (source.chain?.manifests ?? []).map { StoreArrival.url(of: $0, for: store) }
        try await context.blocking { try StoreReplacement.removeLeftovers(of: store, but: arrivals) }
        try await refuseRollback(source, choice, context)
        let local = try await localState(of: store, record, source, context)
        let warnings = choice.warnings
        let isUnchanged = local.root != nil && local.root == source.contentRoot
        if isUnchanged {
            await discard(store, context)
            try await fetchAppliedSets(source, store, nil, context)
        } else {
            let arrival = arrivals.first ?? StoreReplacement.temporaryURL(for: store)
            try await replace(store, with: source, arrivingAt: arrival, local, record, context)
        }
        // The new store is in its place: from here on nothing makes the download fail, a cancellation neither.
        let forgotten = try await warningOfFullDisk("in its place") {
            try await remember(source, store, record, context)
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
            warnings: warnings + forgotten
        )
    }

    // MARK: Looking before touching

    /// What the local store is, as far as it decides what may happen to it.
    private struct LocalState: Sendable {
        var root: ContentRoot?
        var expectation: StoreReplacement.Expectation
    }

    private func refuseRollback(
        _ source: StoreSource,
        _ choice: StoreChoice,
        _ context: OperationContext
    ) async throws {
        guard !request.acceptsRollback, let manifest = source.manifest else { return }
        let memory = try await context.blocking { [state, key] in try state.rollbackMemory(for: key) }
        let isOlder = memory.isRolledBack(client: source.client.rawValue, generation: source.generation)
        let witnessed = choice.highestWitnessed(of: source.client)
        guard isOlder || witnessed > source.generation else { return }
        throw StoreSyncError(
            .rolledBack,
            """
            The remote offers \(manifest.name), but \(isOlder ? "this device has" : "other devices have") seen a newer \
            one. It is still arriving, or the storage was put back to an older state. Take it with --accept-rollback if \
            that is what you want.
            """
        )
    }

    /// Finds out whether replacing the local store would lose something.
    private func localState(
        of store: LocalStore,
        _ record: StoreRecord?,
        _ source: StoreSource,
        _ context: OperationContext
    ) async throws -> LocalState {
        guard try await context.blocking({ try store.exists }) else {
            return LocalState(root: nil, expectation: request.overwritesLocalChanges ? .anything : .absent)
        }
        let copy = try await context.temporaryDirectory().appending(path: "local")
        do {
            let root = try await contentRoot(of: store, copyingTo: copy, context)
            if request.overwritesLocalChanges { return LocalState(root: root, expectation: .anything) }
            let known = [record?.contentRoot, record?.pending?.contentRoot].compactMap { $0 }.compactMap(
                ContentRoot.init(hex:)
            )
            let acceptable = Set(known + [source.contentRoot].compactMap { $0 })
            guard acceptable.contains(root) else { throw localChanges(store, isKnown: record != nil) }
            return LocalState(root: root, expectation: .unchanged(acceptable: acceptable))
        } catch let error as StoreSyncError where error.code == .corrupt || error.code == .unsupportedFormat {
            // What can't be read can't be compared; whoever gives it up may have it replaced.
            guard request.overwritesLocalChanges else { throw error }
            return LocalState(root: nil, expectation: .anything)
        }
    }

    private func contentRoot(
        of store: LocalStore,
        copyingTo copy: URL,
        _ context: OperationContext
    ) async throws -> ContentRoot {
        let taken = try await context.blocking { try TakenStore.take(store, holding: true, copyingTo: copy) }
        do {
            let executor = context.blockingExecutor
            let root = try await taken.limitingHold(by: context.clock, on: executor) {
                try await taken.contentRoot(on: executor)
            }
            try await context.blocking { try taken.release() }
            return root
        } catch {
            try? await context.blocking { try taken.release() }
            throw error
        }
    }

    private func localChanges(_ store: LocalStore, isKnown: Bool) -> StoreSyncError {
        StoreSyncError(
            .localChanges,
            isKnown
                ? "\(store.path) was changed since it was last pushed or pulled. Push it first, or pull with --overwrite to lose these changes."
                : "\(store.path) was never synchronized with this document and would be lost. Push it, move it away, or pull with --overwrite."
        )
    }

    // MARK: Transferring

    private func replace(
        _ store: LocalStore,
        with source: StoreSource,
        arrivingAt arrival: URL,
        _ local: LocalState,
        _ former: StoreRecord?,
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
            // If this device dies after the replacement and before it's remembered, it knows its own work again.
            let future = future(of: store, source, root, former)
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
            // What was cut off goes on the next time, also where it was because credentials have expired.
            let code = (error as? RemoteError)?.code
            if ![.unavailable, .unauthorized, .notAllowed].contains(code) { await discard(store, context) }
            throw error
        }
        await discard(store, context)
    }

    /// Forgets what has come of a download.
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

    /// Writes what comes into a file, opened on the way where the application is encrypted.
    ///
    /// Returns what came.
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
        let temporary = try await context.temporaryDirectory()
        let applied = state.appliedSets(for: store.path, in: key)
        for file in WholeStoreFile.appliedSets where source.files.contains(file) {
            let arrival = temporary.appending(path: file.rawValue)
            _ = try await fetch(file, from: source, to: arrival, progress, context)
            try await context.blocking { try applied.stage(file, from: arrival) }
        }
    }

    // MARK: Remembering

    /// What is remembered of the store once it has been replaced.
    private nonisolated func future(
        of store: LocalStore,
        _ source: StoreSource,
        _ root: ContentRoot?,
        _ former: StoreRecord?
    ) -> StoreRecord {
        var record = StoreRecord(path: store.path, document: key, integrityKey: document.integrityKey)
        record.contentRoot = root?.description
        if let manifest = source.manifest {
            record.vector = manifest.includes
            record.base = StoreBase(client: source.client.rawValue, upload: manifest.name.reference)
        }
        // What this client itself had published from here, and now gives up, is superseded by its next push.
        if let former, former.integrityKey == document.integrityKey {
            record.vector = record.vector.merging(former.vector.restricted(to: document.application.client.rawValue))
        }
        return record
    }

    private func remember(
        _ source: StoreSource,
        _ store: LocalStore,
        _ former: StoreRecord?,
        _ context: OperationContext
    ) async throws {
        let acceptsRollback = request.acceptsRollback
        try await context.blocking { [state, key] in
            try state.appliedSets(for: store.path, in: key).commit()
            // What nobody announced, a store of TICoreDataSync, is what the download was found to be.
            let pending = try state.store(at: store.path, document: key)?.pending
            let root = source.contentRoot ?? pending.flatMap { ContentRoot(hex: $0.contentRoot) }
            try state.commitPull(
                self.future(of: store, source, root, former),
                opened: source.manifest.map { ($0.name.client.rawValue, $0.name.reference, $0.includes) },
                acceptsRollback: acceptsRollback
            )
        }
    }
}
