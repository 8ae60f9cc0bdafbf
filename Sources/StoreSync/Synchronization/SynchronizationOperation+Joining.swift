import ContentDigests
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
        if let rules = request.rules, rules != origin.rules {
            throw StoreSyncError(
                .documentSynchronizes,
                """
                \(document.document) synchronizes by other rules, which its first synchronization has fixed. Synchronize \
                without --rules, or under another document.
                """
            )
        }
        return origin
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
        let baseline: UploadName
        do {
            baseline = try await uploadBaseline(context)
        } catch let error as StoreSyncError where error.code == .documentSynchronizes {
            // Another device was faster, and this one joins it.
            guard let origin = try await fetchOrigin() else { throw error }
            return origin
        }
        let origin = SyncOrigin(baseline: baseline, rules: request.rules ?? .none)
        let sealed = seal.seal(origin.xml, as: .syncOrigin(document.identity))
        if try await hooks.createSyncOrigin(sealed, hierarchy) { return origin }
        // Another device was faster, and this one joins it.
        guard let origin = try await fetchOrigin() else {
            throw StoreSyncError(
                .remoteUnavailable,
                "\(hierarchy.syncOrigin) on the remote was just created, but can't be read. Try again."
            )
        }
        return origin
    }

    func fetchOrigin() async throws -> SyncOrigin? {
        guard let bytes = try await hooks.fetchSyncOrigin(hierarchy) else { return nil }
        let opened = try seal.open(bytes, as: .syncOrigin(document.identity), at: hierarchy.syncOrigin)
        return try SyncOrigin(opened, at: hierarchy.syncOrigin)
    }

    /// Uploads the store with which all devices will begin.
    private func uploadBaseline(_ context: OperationContext) async throws -> UploadName {
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
                """
                \(document.document) has stores with edits that this store lacks. Before the first synchronization, \
                settle that: pull with --from CLIENT, then push with --resolves.
                """
            )
        }
        return baseline
    }

    /// This device's record of the store.
    private func record(_ context: OperationContext) async throws -> StoreRecord? {
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
                client: ClientID(rawValue: client.rawValue),
                rules: origin.rules
            ),
            options: SynchronizedStore.Options(app: request.app, observer: state.steps)
        )
    }

    /// Returns the store's replica, which is created if this device synchronizes the document for the first time.
    func replica(since origin: SyncOrigin, _ context: OperationContext) async throws -> SynchronizedReplica {
        let replica = replica(since: origin)
        guard !FileManager.default.fileExists(atPath: replica.url.path) else {
            if try await !storeExists(context) { try await createMissingStore(origin, context) }
            return replica
        }
        context.reportProgress(OperationProgress(fractionCompleted: 0.1, phase: "joining"))
        let (baseline, isOfOtherStore) = try await baseline(origin, context)
        try await context.blocking { [state] in
            do {
                try state.makeReplicaDirectory()
                try SynchronizedStore.createReplica(
                    at: replica.url,
                    from: baseline,
                    replica.identity,
                    isOfOtherStore: isOfOtherStore
                )
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
    private func createMissingStore(_ origin: SyncOrigin, _ context: OperationContext) async throws {
        guard request.takes == .remote else {
            throw StoreSyncError(
                .storeNotFound,
                """
                \(request.url.path) isn't there any more, and may have had edits that aren't published. Put it back; or \
                synchronize with --take remote, which creates the store from what is published.
                """
            )
        }
        try await download(origin.baseline, to: request.url, context)
        isStoreDownloaded = true
    }

    /// Returns a copy of the store with which all devices begin, and whether the local store isn't known to descend from it.
    ///
    /// The local store is that store, or was edited since; it's downloaded if it doesn't exist.
    private func baseline(_ origin: SyncOrigin, _ context: OperationContext) async throws -> (URL, Bool) {
        if try await !storeExists(context) { try await download(origin.baseline, to: request.url, context) }
        var isRelated = try await storeDescends(from: origin.baseline, context)
        if !isRelated {
            switch request.takes {
            case .remote:
                try await setStoreAside(context)
                try await download(origin.baseline, to: request.url, overwriting: true, context)
                isRelated = true
            case .local, .both: break
            case nil:
                throw StoreSyncError(
                    .unrelatedStore,
                    """
                    \(request.url.path) doesn't come from the store with which \(document.document) began. Synchronize to \
                    a path where no store is, or say what counts: --take remote for the document, --take both for the \
                    rows of both.
                    """
                )
            }
        }
        let copy = try await context.temporaryDirectory().appending(path: "baseline.sqlite")
        let record = try await record(context)
        let isBaseline = try await context.blocking { [request] in
            let snapshot = try StoreSnapshot.take(of: LocalStore(request.url), at: copy)
            return try record?.base == origin.baseline && record?.contentRoot == snapshot.contentRoot.description
        }
        guard !isBaseline else { return (copy, false) }
        try await context.blocking { try FileManager.default.removeItem(at: copy) }
        return (try await baselineCopy(origin, context), !isRelated)
    }

    /// Downloads the store with which all devices begin.
    func baselineCopy(_ origin: SyncOrigin, _ context: OperationContext) async throws -> URL {
        let copy = try await context.temporaryDirectory().appending(path: "baseline.sqlite")
        try await download(origin.baseline, to: copy, context)
        try await context.blocking { [state, key] in try state.forgetStore(at: LocalStore(copy).path, document: key) }
        return copy
    }

    private func storeDescends(from baseline: UploadName, _ context: OperationContext) async throws -> Bool {
        try await record(context)?.contained.contains(baseline) ?? false
    }

    /// Keeps a copy of a store that is about to be overwritten, unless it was just downloaded.
    ///
    /// A retry keeps the first copy.
    func setStoreAside(_ context: OperationContext) async throws {
        guard !isStoreDownloaded, asideWarnings.isEmpty else { return }
        let time = Date.now.formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        let aside = URL(filePath: request.url.path + ".aside-\(time)")
        try await context.blocking { [request] in _ = try StoreSnapshot.take(of: LocalStore(request.url), at: aside) }
        asideWarnings.append("What \(request.url.lastPathComponent) held is kept in \(aside.path).")
    }

    private func download(
        _ name: UploadName,
        to url: URL,
        overwriting: Bool = false,
        _ context: OperationContext
    ) async throws {
        let download = WholeStoreDownloadOperation(
            WholeStoreDownloadRequest(
                url: url,
                upload: .init(of: name.client, generation: name.generation, identifier: name.upload),
                overwritesLocalChanges: overwriting
            ),
            document: document,
            backend: backend,
            state: state
        )
        _ = try await context.addChild(download).value
    }
}
