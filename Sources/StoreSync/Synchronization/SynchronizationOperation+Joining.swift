import ContentDigests
import DatabaseSupport
import Foundation
import Operations
import RemoteStorage
import StoreChanges

/// Where all devices begin: with one store, from which every device creates its replica.
extension SynchronizationOperation {
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
                takesOtherStore: request.takenSide != nil,
                observer: state.steps,
                now: state.now
            )
        )
    }

    /// Returns the store's replica, which is created if this device synchronizes the document for the first time.
    func replica(since origin: SyncOrigin, _ context: OperationContext) async throws -> SynchronizedReplica {
        let replica = replica(since: origin)
        guard try await !replica.exists(context) else {
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
        memory.base = try await settledRecord(context)?.base
        try await remember(memory, context)
        try await context.blocking { [state] in
            try state.makeReplicaDirectory()
            try StoreSyncError.translating {
                try SynchronizedStore.createReplica(at: replica.url, from: beginning, replica.identity)
            }
        }
        do {
            try await replica.using(context) { _ in }
        } catch let error as StoreSyncError where error.code == .storeReplaced {
            // The next attempt begins with the newest baseline again, which may have the store's schema by then.
            try await context.blocking { try SynchronizedStore.removeReplica(at: replica.url) }
            throw error
        }
        return replica
    }

    private func storeExists(_ context: OperationContext) async throws -> Bool {
        try await context.blocking { [request] in try LocalStore(request.url).exists }
    }

    /// Creates a store that was synchronized and is gone, if the user wants that.
    private func createMissingStore(of replica: SynchronizedReplica, _ context: OperationContext) async throws {
        let last = try await memory(since: replica.origin, context).lastStore
        if let last, last.path != LocalPath(request.url.path), last.stateDirectory == state.path,
            !state.isGone(last.path)
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
        guard request.takenSide == .remote else { throw StoreSyncError(StoreChangesError(missingStore: request.url)) }
        let baselines = try await baselines(since: replica.origin).complete
        // Before the store is there: if this device dies then, the next synchronization finds another store, too.
        try await forgetStore(of: replica, context)
        try await downloadStore(baselines, context)
    }

    /// Downloads the first of several baselines that can be read as the local store, and returns it.
    @discardableResult
    private func downloadStore(
        _ baselines: [SyncBaseline],
        overwriting: Bool = false,
        _ context: OperationContext
    ) async throws -> SyncBaseline {
        let baseline = try await withFirst(readableOf: baselines) {
            try await download($0.upload, to: request.url, overwriting: overwriting, context)
            return $0
        }
        transfer = .downloaded
        return baseline
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
            try StoreSyncError.translating {
                do {
                    try SynchronizedStore.forgetStore(replica.store, ofReplicaAt: replica.url)
                } catch let error as StoreChangesError where error.code == .corrupt && request.rebuildsReplica {
                    // The replica is built again next.
                }
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
        var baseline: SyncBaseline?
        switch try await relation(to: baselines, origin, context) {
        case .outdated: baseline = try await downloadStore(baselines.complete, context)
        case .copy(let equal):
            // The store is there already, so this only records it.
            try await download(equal.upload, to: request.url, context)
            baseline = equal
        case .recorded(let recorded): baseline = recorded
        case .unrelated: break
        }
        if let baseline {
            if let beginning = try await beginning(withStoreIfItIs: baseline, origin, context) { return beginning }
            do {
                // The list is empty if the baseline is still arriving, was lost, or newer stores have replaced it.
                return try await withFirst(readableOf: baselines.complete.filter { $0 == baseline }) {
                    try await self.beginning(with: $0, origin, context)
                }
            } catch let error as StoreSyncError where Self.codesOfOneBaseline.contains(error.code) {
                guard request.takenSide != nil else { throw incomplete(baseline.upload, error) }
            }
        }
        switch request.takenSide {
        case .remote:
            let newest = try await downloadStore(baselines.complete, overwriting: true, context)
            if let beginning = try await beginning(withStoreIfItIs: newest, origin, context) { return beginning }
            return try await beginning(with: newest, origin, context)
        case .local, .both:
            var beginning = try await withFirst(readableOf: baselines.complete) {
                try await self.beginning(with: $0, origin, context)
            }
            beginning.isOfOtherStore = true
            return beginning
        case nil: throw unrelatedStore
        }
    }

    /// What the local store is to the document, before this device has a replica of it.
    private enum Relation {
        /// It doesn't exist, or has no edits and lacks those of newer baselines.
        case outdated
        /// It's a copy of this baseline, and no record tells that.
        case copy(SyncBaseline)
        /// It was this baseline, and may have been edited since.
        case recorded(SyncBaseline)
        /// Nothing tells its edits from the document's rows.
        case unrelated
    }

    /// Finds out by this device's record of the store, then by its content.
    ///
    /// - Returns: The relation; `unrelated` also for a store that only its content relates, if the user says what counts.
    /// - Throws: ``StoreSyncError``, with `noUploadedStore` if the store was edited since a baseline that isn't on the remote.
    private func relation(
        to baselines: Baselines,
        _ origin: SyncOrigin,
        _ context: OperationContext
    ) async throws -> Relation {
        guard try await storeExists(context) else { return .outdated }
        let record = try await settledRecord(context)
        // An app may have put another file at the path.
        let isOtherFile = try await context.blocking { [request] in
            guard let former = record?.file, let file = try LocalStore(request.url).file else { return false }
            return !file.isProbably(former)
        }
        if let base = record?.base, !isOtherFile {
            if let baseline = baselines.all.first(where: { $0.upload == base }) { return .recorded(baseline) }
            // This device pushed it while another one began the document, and no other device may publish its edits.
            let isOwnPush = base.client == client && baselines.pushes.contains(base)
            if isOwnPush, record?.contained.contains(origin.baseline) ?? false,
                let first = baselines.all.first(where: { $0.upload == origin.baseline })
            {
                return .recorded(first)
            }
        }
        guard request.takenSide == nil else { return .unrelated }
        let root = try await contentRoot(context)
        let equal = baselines.complete.first { baselines.contents[$0.upload] == root }
        if let equal { return .copy(equal) }
        guard let record, let base = record.base, record.contained.contains(origin.baseline),
            !baselines.pushes.contains(base), !isOtherFile
        else { return .unrelated }
        // It was a baseline that isn't on the remote any more.
        guard record.contentRoot == root.description else { throw incomplete(base) }
        return .outdated
    }

    /// The digest of the local store.
    private func contentRoot(_ context: OperationContext) async throws -> ContentRoot {
        let copy = try await context.temporaryDirectory().appending(path: "digested.sqlite")
        return try await context.blocking { [request, document] in
            let store = try LocalStore(request.url, pages: document.application.seal.pageHash)
            defer { try? FileManager.default.removeItem(at: copy) }
            return try StoreSnapshot.take(of: store, at: copy).contentRoot
        }
    }

    /// A copy of the local store, with the checkpoint, if it's unchanged since a baseline; else `nil`.
    private func beginning(
        withStoreIfItIs baseline: SyncBaseline,
        _ origin: SyncOrigin,
        _ context: OperationContext
    ) async throws -> SynchronizedStore.Beginning? {
        let copy = try await context.temporaryDirectory().appending(path: "baseline.sqlite")
        let isUnchanged = try await context.blocking { [state, key, request, document] in
            let store = try LocalStore(request.url, pages: document.application.seal.pageHash)
            let (snapshot, record) = (
                try StoreSnapshot.take(of: store, at: copy), try state.locate(store, document: key)
            )
            let root = try snapshot.contentRoot.description
            if record?.base == baseline.upload, record?.contentRoot == root { return true }
            try FileManager.default.removeItem(at: copy)
            return false
        }
        guard isUnchanged else { return nil }
        let checkpoint = try await checkpoint(of: baseline, origin, downloadedTo: request.url, context)
        return SynchronizedStore.Beginning(store: copy, checkpoint: checkpoint)
    }

    /// The error of an edited store whose edits can't be told from the document's rows.
    private func incomplete(_ baseline: UploadName, _ cause: (any Error)? = nil) -> StoreSyncError {
        StoreSyncError(
            .noUploadedStore,
            """
            \(baseline.atStart), with which \(request.url.lastPathComponent) would be compared to find your edits, isn't \
            complete on the remote: it is still arriving, was lost or damaged, or newer stores have replaced it. Nothing was \
            changed. Synchronize again later. If the error stays, synchronize with --take both, which keeps the rows of the \
            store and of the document.
            """,
            cause: cause
        )
    }

    /// This device's record of the store, also if a download died when it had just replaced the store.
    func settledRecord(_ context: OperationContext) async throws -> StoreRecord? {
        let record = try await record(context)
        guard let record, record.pending != nil else { return record }
        let root = try await contentRoot(context)
        let file = try await context.blocking { [request] in try LocalStore(request.url).file }
        guard record.isReplaced(having: root.description, file) != nil else {
            // The app has edited it, before or after the download replaced it: the user has to say what counts.
            var edited = record
            edited.base = nil
            return edited
        }
        return try await context.blocking { [state] in
            try state.settlePull(of: record, contentRoot: root, file: file)
        }
    }

    private var unrelatedStore: StoreSyncError {
        StoreSyncError(
            .unrelatedStore,
            """
            \(request.url.path) doesn't come from a store with which devices of \(document.document) begin, or this device \
            has lost its memory of it. Synchronize to a path where no store is, or say what counts: --take remote for the \
            document, --take local for this store, --take both for the rows of both.
            """
        )
    }

    /// Returns a warning if rows of the store may multiply, because this device joins a second document with it.
    ///
    /// What the synchronization with one document writes is an edit for the other one. If two devices have both documents,
    /// both publish it, and without a natural key that makes two rows, which return through the first document.
    func warningsOfOtherDocuments(
        than replica: SynchronizedReplica,
        _ context: OperationContext
    ) async throws -> [String] {
        guard replica.origin.baseline.client != client else { return [] }
        let tables = try await replica.using(context) { $0.tablesWithoutNaturalKey }
        guard !tables.isEmpty else { return [] }
        let others = try await context.blocking { [state] in
            try StoreSyncError.translating {
                try SynchronizedStore.replicas(ofStoreAt: replica.store, among: state.replicas()).found
            }.map(\.identity).filter { $0.origin != replica.identity.origin }
        }
        guard !others.isEmpty else { return [] }
        return [
            """
            This device synchronizes \(request.url.lastPathComponent) with another document, too: \
            \(Set(others.map(\.document)).sorted().joined(separator: ", ")). If a second device synchronizes its store with \
            both documents, rows of these tables multiply without end, since they have no natural key: \
            \(tables.joined(separator: ", ")). On all devices but one, synchronize the store with only one of the documents.
            """
        ]
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
            throw StoreSyncError.storeInUse(self.request.url)
        }
        guard url == self.request.url else { return }
        let root = try await record(context)?.contentRoot.flatMap(ContentRoot.init(hex:))
        kept = root.map { AsideStore.Content(root: $0, status: nil) }
    }
}
