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
        let origin = SyncOrigin(baseline: baseline)
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

    private func fetchOrigin() async throws -> SyncOrigin? {
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

    /// Returns the store's replica, which is created if this device synchronizes the document for the first time.
    func replica(since origin: SyncOrigin, _ context: OperationContext) async throws -> SynchronizedReplica {
        let replica = SynchronizedReplica(
            origin: origin,
            store: request.url,
            url: state.replica(of: key, since: origin.identifier),
            identity: SynchronizedStore.Identity(
                document: document.document.rawValue,
                client: ClientID(rawValue: client.rawValue)
            ),
            options: SynchronizedStore.Options(app: request.app, observer: state.steps)
        )
        guard !FileManager.default.fileExists(atPath: replica.url.path) else {
            guard try await context.blocking({ [request] in try LocalStore(request.url).exists }) else {
                throw StoreSyncError(
                    .storeNotFound,
                    """
                    \(request.url.path) isn't there any more, and may have had edits that aren't published. Put it back; or \
                    synchronize with another state directory, which creates the store from what is published.
                    """
                )
            }
            return replica
        }
        context.reportProgress(OperationProgress(fractionCompleted: 0.1, phase: "joining"))
        let baseline = try await baseline(origin, context)
        try await context.blocking { [state] in
            do {
                try state.makeReplicaDirectory()
                try SynchronizedStore.createReplica(
                    at: replica.url,
                    from: baseline,
                    replica.identity
                )
            } catch let error as StoreChangesError {
                throw StoreSyncError(error)
            }
        }
        return replica
    }

    /// Returns a copy of the store with which all devices begin.
    ///
    /// The local store is that store, or was edited since; it's downloaded if it doesn't exist.
    private func baseline(_ origin: SyncOrigin, _ context: OperationContext) async throws -> URL {
        if try await context.blocking({ [request] in try !LocalStore(request.url).exists }) {
            try await download(origin.baseline, to: request.url, context)
        }
        guard let record = try await record(context), record.contained.contains(origin.baseline) else {
            throw StoreSyncError(
                .unrelatedStore,
                """
                \(request.url.path) doesn't come from the store with which \(document.document) began. Synchronize to \
                a path where no store is, then copy into that store what this one has.
                """
            )
        }
        let copy = try await context.temporaryDirectory().appending(path: "baseline.sqlite")
        let isBaseline = try await context.blocking { [request] in
            let snapshot = try StoreSnapshot.take(of: LocalStore(request.url), at: copy)
            return try record.base == origin.baseline && record.contentRoot == snapshot.contentRoot.description
        }
        guard !isBaseline else { return copy }
        try await context.blocking { try FileManager.default.removeItem(at: copy) }
        try await download(origin.baseline, to: copy, context)
        try await context.blocking { [state, key] in try state.forgetStore(at: LocalStore(copy).path, document: key) }
        return copy
    }

    private func download(_ name: UploadName, to url: URL, _ context: OperationContext) async throws {
        let download = WholeStoreDownloadOperation(
            WholeStoreDownloadRequest(
                url: url,
                upload: .init(of: name.client, generation: name.generation, identifier: name.upload)
            ),
            document: document,
            backend: backend,
            state: state
        )
        _ = try await context.addChild(download).value
    }
}
