import ContentDigests
import Foundation
public import Operations
public import RemoteStorage
import SyncCryptography
import ThreadSupport

/// Downloads the newest whole store of a document, or one client's, and replaces the local store with it.
///
/// The newest is the upload that no other includes, whatever clocks say; if there are several, the user must choose. The
/// download is verified as a whole before the local store is touched, and the local store survives every failure.
///
/// Two kinds of local stores are replaced only if the request says so: a store that was changed since it was last pushed or
/// pulled, and a store of a former document that equals no upload of the present one.
public actor WholeStoreDownloadOperation: Operation {
    /// Is told before and after the store is replaced, so that the app can close and open it.
    ///
    /// An error that it throws before ends the download, and the store stays as it is.
    public typealias Delegate = @Sendable (StoreReplacementEvent) async throws -> Void

    private let delegate: Delegate?
    let request: WholeStoreDownloadRequest
    let document: DocumentRegistration
    let hierarchy: DocumentHierarchy
    let hooks: any WholeStoreDownloadHooks
    let state: StateDirectory
    let key: DocumentKey
    /// Keeps a copy of the store just before it's replaced, and returns the digest of the copy.
    private var keepFormer: (@Sendable () async throws -> ContentRoot)?
    /// How often a copy is kept of a store that an app writes to meanwhile.
    private static let maximumCopies = 3

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: The local file, and the upload to download.
    ///   - document: The registered document.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    ///   - delegate: Is told before and after the store is replaced.
    public init(
        _ request: WholeStoreDownloadRequest,
        document: DocumentRegistration,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: Delegate? = nil
    ) {
        self.delegate = delegate
        self.request = request
        self.document = document
        hierarchy = document.hierarchy
        hooks = backend.wholeStoreDownloadHooks
        self.state = state
        key = document.application.key(backend, document.document)
    }

    /// Downloads the store.
    ///
    /// - Throws: ``StoreSyncError``, among others `noUploadedStore`, `diverged`, `localChanges`,
    ///   `documentSynchronizes`, `rolledBack`, `tampered`, `storeNotFound`, `cannotWrite` and `busy`;
    ///   `CancellationError`.
    public func main(_ context: OperationContext) async throws -> WholeStoreDownload {
        try await translatingErrors {
            let store = try await context.blocking { [request, state, seal = document.application.seal] in
                try LocalStore(request.url, pages: seal.pageHash, steps: state.steps)
            }
            let lock = try await state.lock(.store(store.path), .exclusive, for: context)
            defer { lock.release() }
            try await context.blocking { StoreReplacement.restoreLog(of: store) }
            return try await download(store, context)
        }
    }

    /// Refuses to replace a store of a document whose devices merge records: its edits would be lost to them.
    private func refuseSynchronizedDocument(_ store: LocalStore, _ context: OperationContext) async throws {
        guard !request.isBaseline, try await context.blocking({ try store.exists }),
            try await document.synchronizesRecords(hooks.backend, state, context)
        else { return }
        throw StoreSyncError(
            .documentSynchronizes,
            """
            \(document.document) is synchronized record by record, so no pull replaces a store of it: use storesync sync, \
            or pull to a path where no store is.
            """
        )
    }

    private func download(_ store: LocalStore, _ context: OperationContext) async throws -> WholeStoreDownload {
        let (plan, record) = try await comparing(with: { try await rollbackMemory(context) }) { memory in
            async let refusal: Void = refuseSynchronizedDocument(store, context)
            let published = try await UploadCatalog(hooks, document).read()
            try await refusal
            let record = try await context.blocking { [state, key] in
                try state.adoptInterruptedUploads(published.manifests, document: key)
                return try state.locate(store, document: key)
            }
            return (try await self.plan(for: store, published, memory, context), record)
        }
        let local = try await localState(of: plan, record, context)
        let isUnchanged = local.content.map { $0.root == plan.source.contentRoot } ?? false
        if isUnchanged {
            await discard(plan, context)
            try await fetchAppliedSets(of: plan, progress(of: plan, context))
        } else {
            try await replaceStore(plan, local, context)
        }
        // The store is replaced: from here on, neither an error nor a cancellation makes the download fail.
        let forgotten = try await warningIfForgotten("replaced") { try await remember(plan, local, context) }
        let recorded = await document.recordSync(
            of: document.application.client,
            at: state.now(),
            hooks.backend.recentSyncHooks
        )
        let bytes = (try? await context.blocking { try store.byteCount }) ?? plan.source.totalBytes
        return WholeStoreDownload(
            client: document.application.client,
            from: plan.source.client,
            generation: plan.source.generation,
            bytes: bytes,
            storedBytes: plan.source.storedBytes ?? bytes,
            isEncrypted: document.application.isEncrypted,
            isUnchanged: isUnchanged,
            warnings: document.allWarnings + plan.choice.warnings + forgotten + recorded
        )
    }

    private func rollbackMemory(_ context: OperationContext) async throws -> RollbackMemory {
        try await context.blocking { [state, key, document] in
            try state.rollbackMemory(for: key, document.integrityKey)
        }
    }

    /// Chooses the upload, and removes what former downloads left that this one doesn't resume.
    private func plan(
        for store: LocalStore,
        _ published: PublishedStores,
        _ memory: RollbackMemory,
        _ context: OperationContext
    ) async throws -> DownloadPlan {
        var choice = StoreChoice(hooks: hooks, document: document, published: published, wanted: request.upload)
        let source = try await source(of: &choice, memory)
        let journal = state.pullJournal(of: store.path, in: key)
        let kept = (source.chain?.manifests ?? []).map {
            StoreReplacement.temporaryURL(for: store, of: $0.name, journal)
        }
        try await context.blocking { StoreReplacement.removeLeftovers(nextTo: store.url, but: kept) }
        return DownloadPlan(
            document: document,
            key: key,
            store: store,
            source: source,
            arrivals: kept.isEmpty ? [StoreReplacement.temporaryURL(for: store)] : kept,
            choice: choice,
            memory: memory,
            missing: try refuseRollback(source, choice, memory)
        )
    }

    /// Lets `keep` copy the store before it's replaced; it's replaced only if it equals the copy then, and else copied again.
    func keepFormerStore(_ keep: @escaping @Sendable () async throws -> ContentRoot) { keepFormer = keep }

    private func progress(of plan: DownloadPlan, _ context: OperationContext) -> TransferProgress {
        TransferProgress(context, phase: "downloading", totalBytes: plan.source.totalBytes)
    }

    // MARK: Transferring

    private func replaceStore(
        _ plan: DownloadPlan,
        _ local: LocalState,
        _ context: OperationContext
    ) async throws {
        do {
            let progress = progress(of: plan, context)
            var root = try await fetchStore(of: plan, besides: local.content, progress)
            try await fetchAppliedSets(of: plan, progress)
            if plan.source.manifest == nil {
                let copy = try await context.temporaryDirectory().appending(path: "arrival")
                root = try await context.blocking { try StoreSnapshot.check(download: plan.arrival, copyingTo: copy) }
            }
            try await putInPlace(plan, local, noting: plan.record(contentRoot: root), context)
        } catch {
            // Without a manifest no later pull recognizes what was downloaded.
            if plan.source.manifest == nil || !Self.keepsDownload(after: error) { await discard(plan, context) }
            throw await namingCompleteUpload(error, plan)
        }
        await discard(plan, context)
    }

    /// Replaces the store with the download, and remembers meanwhile what it's replaced with.
    private func putInPlace(
        _ plan: DownloadPlan,
        _ local: LocalState,
        noting record: StoreRecord,
        _ context: OperationContext
    ) async throws {
        // If this device dies after the replacement and before recording it, it recognizes its own work later.
        let former = try await context.blocking { [state, request] in
            let file = request.replacement == .file ? FileIdentity(atPath: plan.arrival.path) : nil
            return try state.beginPull(record, with: file)
        }
        do {
            try Task.checkCancellation()
            try await tellingDelegate(context) { try await putInPlace(plan, local, context) }
        } catch {
            if !mayHaveReplaced(after: error) {
                try? await context.shielded { [state] in
                    try await context.blocking { try state.cancelPull(record, restoring: former) }
                }
            }
            throw error
        }
    }

    /// Whether the store may have been replaced although its replacement failed.
    ///
    /// The rename is the last step that can fail. A transaction may be on disk although its commit failed.
    private func mayHaveReplaced(after error: any Error) -> Bool {
        guard request.replacement == .transaction, let error = error as? StoreSyncError else { return false }
        return ![.busy, .localChanges, .unsupportedFormat].contains(error.code)
    }

    /// Replaces the store with the download, which is verified.
    private func putInPlace(_ plan: DownloadPlan, _ local: LocalState, _ context: OperationContext) async throws {
        let mode = request.replacement
        var copies = 0
        while true {
            let kept = try await keepFormer?()
            copies += 1
            do {
                return try await context.blocking {
                    let expectation = kept.map { .unchanged(acceptable: [$0]) } ?? local.expectation
                    try StoreReplacement.replace(plan.store, with: plan.arrival, expecting: expectation, mode: mode)
                }
            } catch let error as StoreSyncError
                where error.code == .localChanges && kept != nil && copies < Self.maximumCopies
            {
                // An app has written since the copy: another copy keeps that, too.
                continue
            }
        }
    }

    /// Whether a download is kept for the next attempt: it was interrupted, by expired credentials perhaps, or a program uses the store.
    private static func keepsDownload(after error: any Error) -> Bool {
        switch error {
        case let error as RemoteError: [.unavailable, .unauthorized, .notAllowed].contains(error.code)
        case let error as StoreSyncError: error.code == .busy
        default: false
        }
    }

    /// Replaces the store between two calls of the delegate; the second one follows whatever happens after the first.
    private func tellingDelegate(_ context: OperationContext, _ replace: () async throws -> Void) async throws {
        guard let delegate else { return try await replace() }
        let url = request.url
        do {
            try await context.pause(awaiting: "the app to close \(url.path)") { try await delegate(.willReplace(url)) }
            try Task.checkCancellation()
            try await replace()
        } catch {
            try? await context.shielded { try await delegate(.didReplace(url, isReplaced: false)) }
            throw error
        }
        try? await context.shielded { try await delegate(.didReplace(url, isReplaced: true)) }
    }

    /// Returns the error of a damaged upload, with the name of an older upload that can be pulled.
    private func namingCompleteUpload(_ error: any Error, _ plan: DownloadPlan) async -> any Error {
        let damages: Set<StoreSyncError.Code> = [.corrupt, .tampered, .orphan]
        guard !request.isBaseline, var damage = error as? StoreSyncError, damages.contains(damage.code),
            let name = plan.source.manifest?.name, let complete = await plan.choice.completeUpload(besides: name)
        else { return error }
        damage.message +=
            " \(complete.atStart) is complete: pull it with --from \(complete.client) --generation \(complete.generation)."
        return damage
    }

    /// Discards a partial download, and not that of another state directory.
    private func discard(_ plan: DownloadPlan, _ context: OperationContext) async {
        let journal = state.pullJournal(of: plan.store.path, in: key)
        try? await context.blocking {
            StoreReplacement.remove(plan.arrivals)
            try journal.remove()
        }
    }

    /// Downloads one file, opens it on the way if the application is encrypted, and checks that it is what was uploaded.
    func fetch(
        _ file: WholeStoreFile,
        from source: StoreSource,
        to url: URL,
        _ progress: TransferProgress
    ) async throws -> ContentRoot {
        let path = file.path(in: source.directory)
        guard let content = try await hooks.downloadFile(at: path, range: nil)?.counted(by: progress) else {
            throw StoreSyncError.notArrived(path)
        }
        let expected = source.manifest?[file]
        // A sealed file ends with its last chunk, or doesn't open.
        let limit = document.application.isEncrypted ? nil : expected?.size
        let receiver = FileReceiver(url: url, context: progress.context, limit: limit)
        if document.application.isEncrypted {
            let pass = try await open(content, as: file, of: source) { try await receiver.receive($0) }
            if let expected, expected.isProven(by: pass) { return expected.contentRoot }
        } else {
            try await receiver.receive(content)
        }
        let received = try await ContentRoot.of(
            fileAt: url,
            document.application.seal.pageHash,
            on: progress.context.blockingExecutor
        )
        if let expected {
            guard received.root == expected.contentRoot, received.byteCount == expected.size else {
                throw StoreSyncError.notAsUploaded(path)
            }
        }
        return received.root
    }

    /// Opens a sealed file, and returns the summary of the pass when `body` has read it.
    private func open(
        _ content: RemoteContent,
        as file: WholeStoreFile,
        of source: StoreSource,
        _ body: (OpenedContent<RemoteContent>) async throws -> Void
    ) async throws -> ContentSummary {
        let seal = document.application.seal
        guard let key = seal.key, let manifest = source.manifest else {
            throw StoreSyncError(.tampered, "A store of an encrypted application has no manifest, so it isn't opened.")
        }
        let role = ApplicationSeal.Role.file(file, manifest.name, of: document.identity)
        do {
            let opening = FileOpening(context: seal.context(role), salt: manifest[file]?.seal?.salt)
            return try await key.pass(over: content, opening, body)
        } catch let error as CryptographyError {
            throw StoreSyncError(error, ofStoreFileAt: file.path(in: source.directory))
        }
    }

    private func fetchAppliedSets(of plan: DownloadPlan, _ progress: TransferProgress) async throws {
        let applied = state.appliedSets(for: plan.store.path, in: key)
        let directory = try await progress.context.temporaryDirectory()
        // A former pull that failed may have left files that no file of this one replaces.
        try await progress.context.blocking { applied.discardStaged() }
        try await WholeStoreFile.appliedSets.filter(plan.source.files.contains).concurrentMap { [self] file in
            let arrival = directory.appending(path: file.rawValue)
            _ = try await fetch(file, from: plan.source, to: arrival, progress)
            try await progress.context.blocking { try applied.stage(file, from: arrival) }
        }
    }

    // MARK: Remembering

    private func remember(_ plan: DownloadPlan, _ local: LocalState, _ context: OperationContext) async throws {
        let isIncluded = plan.choice.manifests.contains { manifest in
            plan.source.manifest.map {
                plan.memory.newest.contains(manifest.name) && manifest.includes.contains($0.name)
            } ?? false
        }
        try await context.blocking { [state, key] in
            // No manifest names the digest of a store of TICoreDataSync, so it's the one found by the download.
            let pending = try state.store(at: plan.store.path, document: key)?.pending
            let root = plan.source.contentRoot ?? pending.flatMap { ContentRoot(hex: $0.contentRoot) }
            try state.commitPull(
                plan.record(contentRoot: root),
                isIncluded: isIncluded,
                givingUp: plan.missing,
                wasUnrelated: local.isUnrelated
            )
        }
    }
}
