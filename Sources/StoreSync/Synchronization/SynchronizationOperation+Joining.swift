import ContentDigests
import DatabaseSupport
import Foundation
import Operations
import RemoteStorage
import StoreChanges

/// Where all devices begin: with one store, from which every device creates its replica.
extension SynchronizationOperation {
    // MARK: The origin

    /// Returns where the document's change sets begin; the first device decides it with its own store.
    func origin(_ context: OperationContext) async throws -> SyncOrigin {
        let origin = try await decidedOrigin(context)
        try refuseOtherRules(than: origin)
        return origin
    }

    func refuseOtherRules(than origin: SyncOrigin) throws {
        guard let rules = request.rules, rules != origin.rules else { return }
        throw StoreSyncError(
            .documentSynchronizes,
            """
            \(document.document) synchronizes by other rules, which its first synchronization has fixed. Synchronize \
            without --rules, or under another document.
            """
        )
    }

    private func decidedOrigin(_ context: OperationContext) async throws -> SyncOrigin {
        if let origin = try await fetchOrigin() { return origin }
        let known = try await context.blocking { [state, key, document] in
            try state.synchronization(of: key, document.integrityKey)
        }
        guard known == nil else {
            throw StoreSyncError(
                .rolledBack,
                """
                \(hierarchy.syncOrigin) on the remote is missing, and this device has seen it. It is still arriving, or \
                was lost or hidden. If it stays missing, restore it from a backup.
                """
            )
        }
        guard try await hooks.listSyncHeads(hierarchy).allSatisfy({ SyncHeadName($0) == nil }) else {
            // Another device was faster, and this one joins it.
            if let origin = try await fetchOrigin() { return origin }
            throw StoreSyncError(
                .remoteUnavailable,
                """
                \(hierarchy.syncOrigin) on the remote is missing, although devices have published edits. It is still \
                arriving, or was lost or hidden: synchronize again later. If it stays missing, restore it from a backup.
                """
            )
        }
        let baseline: UploadName
        do {
            baseline = try await uploadBaseline(context)
        } catch let error as StoreSyncError
            where [.documentSynchronizes, .unrelatedStore, .diverged].contains(error.code)
        {
            // Another device was faster, and this one joins it.
            if let origin = try await fetchOrigin() { return origin }
            throw error.code == .documentSynchronizes ? error : undecidedOrigin
        }
        let origin = SyncOrigin(baseline: baseline, rules: request.rules ?? .none)
        let sealed = seal.seal(origin.xml, as: .syncOrigin(document.identity))
        if try await hooks.createSyncOrigin(sealed, hierarchy) {
            transfer = .uploaded
            return origin
        }
        // Another device was faster, and this one joins it.
        guard let origin = try await fetchOrigin() else {
            throw StoreSyncError(
                .remoteUnavailable,
                "\(hierarchy.syncOrigin) on the remote was just created, but can't be read. Try again."
            )
        }
        return origin
    }

    /// The error of a document that has stores whose edits this one lacks, and no origin.
    ///
    /// A device that synchronizes for the first time publishes its store before the origin.
    private var undecidedOrigin: StoreSyncError {
        StoreSyncError(
            .busy,
            """
            \(document.document) has stores on the remote with edits that this store may lack. If another device is \
            synchronizing the document for the first time, wait until it has ended, and synchronize again. Only if none is \
            and the error stays, settle the stores before the first synchronization: pull with --from CLIENT, then push with \
            --resolves.
            """
        )
    }

    func fetchOrigin() async throws -> SyncOrigin? {
        guard let bytes = try await hooks.fetchSyncOrigin(hierarchy) else { return nil }
        let opened = try seal.open(bytes, as: .syncOrigin(document.identity), at: hierarchy.syncOrigin)
        return try SyncOrigin(opened, at: hierarchy.syncOrigin)
    }

    /// Uploads the store with which all devices will begin.
    private func uploadBaseline(_ context: OperationContext) async throws -> UploadName {
        try await context.blocking { [request, document] in
            let store = try LocalStore(request.url)
            guard try store.exists else {
                throw StoreSyncError(
                    .storeNotFound,
                    """
                    There is no store at \(store.path) on this device, and no device has synchronized \(document.document) \
                    yet. Check the path, or synchronize first on a device that has the store.
                    """
                )
            }
            // Every device begins with it: what isn't a database would leave a document that no device can synchronize.
            try StoreSnapshot.checkDatabase(store)
            do {
                try request.rules?.validate(forStoreAt: request.url)
                try SynchronizedStore.requireWritable(storeAt: request.url, through: request.app)
            } catch let error as StoreChangesError {
                throw StoreSyncError(error)
            }
        }
        let upload = WholeStoreUploadOperation(
            WholeStoreUploadRequest(url: request.url),
            document: document,
            backend: backend,
            state: state
        )
        let uploaded = try await context.addChild(upload).value
        let record = try await record(context)
        guard uploaded.divergedFrom.isEmpty, let baseline = record?.base else {
            throw StoreSyncError(
                .diverged,
                "\(document.document) has stores on the remote with edits that this store lacks."
            )
        }
        return baseline
    }

    /// This device's record of the store.
    func record(_ context: OperationContext) async throws -> StoreRecord? {
        try await context.blocking { [state, key, request] in
            try state.locate(LocalStore(request.url), document: key)
        }
    }

    // MARK: The replica

    /// Where the store's replica is, or will be.
    func replica(since origin: SyncOrigin) -> SynchronizedReplica {
        SynchronizedReplica(
            origin: origin,
            store: request.url,
            url: state.replica(of: key, since: origin.identifier),
            identity: SynchronizedStore.Identity(
                document: document.document.rawValue,
                origin: origin.identifier.uuidString,
                client: ClientID(rawValue: client.rawValue),
                rules: origin.rules
            ),
            options: SynchronizedStore.Options(
                app: request.app,
                requiresReplica: true,
                takesOtherStore: request.takes != nil,
                observer: state.steps,
                now: state.now
            )
        )
    }

    /// Returns the store's replica, which is created if this device synchronizes the document for the first time.
    func replica(since origin: SyncOrigin, _ context: OperationContext) async throws -> SynchronizedReplica {
        let replica = replica(since: origin)
        guard !FileManager.default.fileExists(atPath: replica.url.path) else {
            if try await !storeExists(context) { try await createMissingStore(of: replica, context) }
            try await forgetPulledStore(of: replica, context)
            return replica
        }
        context.reportProgress(OperationProgress(fractionCompleted: 0.1, phase: "joining"))
        let beginning = try await beginning(origin, context)
        // Of this name, other documents were removed. Their origins are forgotten next.
        try await context.blocking { [state, key] in
            let former = try state.replicas(of: key.application, document: key.document).filter { $0 != replica.url }
            try state.remove(former)
        }
        // If this device had a replica, what that had read must be read again.
        var memory = try await memory(since: origin, context)
        memory.readHeadsAgain()
        memory.base = try await record(context)?.base
        try await remember(memory, context)
        try await context.blocking { [state] in
            do {
                try state.makeReplicaDirectory()
                try SynchronizedStore.createReplica(at: replica.url, from: beginning, replica.identity)
            } catch let error as StoreChangesError {
                throw StoreSyncError(error)
            }
        }
        return replica
    }

    private func storeExists(_ context: OperationContext) async throws -> Bool {
        try await context.blocking { [request] in try LocalStore(request.url).exists }
    }

    /// Creates a store that was synchronized and is gone, if the user wants that.
    private func createMissingStore(of replica: SynchronizedReplica, _ context: OperationContext) async throws {
        let last = try await memory(since: replica.origin, context).lastStore
        if let last, last.path != request.url.path, last.stateDirectory == state.path,
            FileManager.default.fileExists(atPath: last.path)
        {
            throw StoreSyncError(
                .storeNotFound,
                """
                There is no store at \(request.url.path): this device synchronizes \(document.document) with \(last.path). \
                Check the path. If the store is to be there, close it, move it with the files beside it whose names begin \
                with its name, then synchronize again.
                """
            )
        }
        guard request.takes == .remote else {
            throw StoreSyncError(
                .storeNotFound,
                """
                \(request.url.path) isn't there any more, and may have had edits that aren't published. Put it back; or \
                synchronize with --take remote, which creates the store from what is published.
                """
            )
        }
        let newest = try await newest(of: baselines(since: replica.origin))
        // Before the store is there: if this device dies then, the next synchronization finds another store, too.
        try await forgetStore(of: replica, context)
        try await download(newest.upload, to: request.url, context)
        transfer = .downloaded
    }

    /// Lets a replica without a token know no store, if another store was pulled to the path of its store.
    ///
    /// That store has no token either, and what it has beyond the replica isn't an edit of the user.
    private func forgetPulledStore(of replica: SynchronizedReplica, _ context: OperationContext) async throws {
        var memory = try await memory(since: replica.origin, context)
        let base = try await settledRecord(context)?.base
        guard base != memory.base else { return }
        try await forgetStore(of: replica, context)
        memory.base = base
        try await remember(memory, context)
    }

    /// Lets a replica without a token know no store: the user has to say what counts.
    func forgetStore(of replica: SynchronizedReplica, _ context: OperationContext) async throws {
        try await context.blocking { [request] in
            do {
                try SynchronizedStore.forgetStore(replica.store, ofReplicaAt: replica.url)
            } catch let error as StoreChangesError where error.code == .corrupt && request.rebuildsReplica {
                // The replica is built again next.
            } catch let error as StoreChangesError {
                throw StoreSyncError(error)
            }
        }
    }

    /// Returns the store with which this device begins.
    ///
    /// The local store is that store, or was edited since; it's downloaded if it doesn't exist.
    private func beginning(
        _ origin: SyncOrigin,
        _ context: OperationContext
    ) async throws -> SynchronizedStore.Beginning {
        let baselines = try await baselines(since: origin)
        if try await !storeExists(context) {
            try await download(newest(of: baselines).upload, to: request.url, context)
            transfer = .downloaded
        }
        let record = try await settledRecord(context)
        var baseline = baselines.all.first { $0.upload == record?.base }
        if baseline == nil, record?.contained.contains(origin.baseline) ?? false {
            baseline = baselines.all.first { $0.upload == origin.baseline }
        }
        let copy = try await context.temporaryDirectory().appending(path: "baseline.sqlite")
        if let baseline, try await copyStore(to: copy, ifItIs: baseline.upload, context) {
            let checkpoint = try await checkpoint(of: baseline, origin, downloadedTo: request.url, context)
            return SynchronizedStore.Beginning(store: copy, checkpoint: checkpoint)
        }
        if let lost = baseline, !baselines.whole.contains(lost) {
            guard request.takes != nil else { throw incomplete(lost) }
            baseline = nil
        }
        if let baseline { return try await beginning(with: baseline, origin, context) }
        switch request.takes {
        case .remote:
            let newest = try newest(of: baselines)
            try await download(newest.upload, to: request.url, overwriting: true, context)
            transfer = .downloaded
            guard try await copyStore(to: copy, ifItIs: newest.upload, context) else {
                return try await beginning(with: newest, origin, context)
            }
            let checkpoint = try await checkpoint(of: newest, origin, downloadedTo: request.url, context)
            return SynchronizedStore.Beginning(store: copy, checkpoint: checkpoint)
        case .local, .both:
            var beginning = try await beginning(with: newest(of: baselines), origin, context)
            beginning.isOfOtherStore = true
            return beginning
        case nil: throw unrelatedStore
        }
    }

    /// Copies the local store if it's unchanged since an upload; returns whether it is.
    private func copyStore(
        to copy: URL,
        ifItIs upload: UploadName,
        _ context: OperationContext
    ) async throws -> Bool {
        try await context.blocking { [state, key, request, document] in
            let store = try LocalStore(request.url, pages: document.application.seal.pageHash)
            let (snapshot, record) = (
                try StoreSnapshot.take(of: store, at: copy), try state.locate(store, document: key)
            )
            let root = try snapshot.contentRoot.description
            if record?.base == upload, record?.contentRoot == root { return true }
            try FileManager.default.removeItem(at: copy)
            return false
        }
    }

    /// The error of an edited store whose edits can't be told from the document's rows.
    private func incomplete(_ baseline: SyncBaseline) -> StoreSyncError {
        StoreSyncError(
            .noUploadedStore,
            """
            This device has no record of \(request.url.lastPathComponent), and \(baseline.upload), with which the store \
            would be compared to find your edits, is incomplete on the remote: it is still arriving, or was lost. Nothing was \
            changed. Synchronize again later. If the error stays, synchronize with --take both, which keeps the rows of the \
            store and of the document.
            """
        )
    }

    /// This device's record of the store, also if a download died when it had just replaced the store.
    private func settledRecord(_ context: OperationContext) async throws -> StoreRecord? {
        guard let record = try await record(context), record.pending != nil else { return try await record(context) }
        let copy = try await context.temporaryDirectory().appending(path: "pending.sqlite")
        return try await context.blocking { [state, request, document] in
            let store = try LocalStore(request.url, pages: document.application.seal.pageHash)
            let root = try StoreSnapshot.take(of: store, at: copy).contentRoot
            try FileManager.default.removeItem(at: copy)
            return try state.settlePull(of: record, contentRoot: root, file: store.file)
        }
    }

    private var unrelatedStore: StoreSyncError {
        StoreSyncError(
            .unrelatedStore,
            """
            \(request.url.path) doesn't come from a store with which devices of \(document.document) begin. Synchronize to \
            a path where no store is, or say what counts: --take remote for the document, --take local for this store, \
            --take both for the rows of both.
            """
        )
    }

    func download(
        _ name: UploadName,
        to url: URL,
        overwriting: Bool = false,
        _ context: OperationContext
    ) async throws {
        var request = WholeStoreDownloadRequest(
            url: url,
            upload: .init(of: name.client, generation: name.generation, identifier: name.upload),
            overwritesLocalChanges: overwriting
        )
        request.isBaseline = true
        let download = WholeStoreDownloadOperation(request, document: document, backend: backend, state: state)
        if overwriting { await download.keepFormerStore { [self] in try await setStoreAside(context) } }
        do {
            _ = try await context.addChild(download).value
        } catch let error as StoreSyncError where error.code == .localChanges && overwriting {
            throw isWrittenToAllTheTime
        }
        guard url == self.request.url else { return }
        let root = try await record(context)?.contentRoot.flatMap(ContentRoot.init(hex:))
        kept = root.map { KeptContent(root: $0, status: nil) }
    }
}
