import Foundation
import Operations
import RemoteStorage
import StoreChanges

/// Where a document's change sets begin: the first device decides it with its own store.
extension SynchronizationOperation {
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
        if let known { return try await writeOriginAgain(known) }
        guard try await hooks.listSyncHeads(hierarchy).allSatisfy({ SyncHeadName($0) == nil }) else {
            // Another device was faster, and this one joins it.
            if let origin = try await fetchOrigin() { return origin }
            throw StoreSyncError(
                .remoteUnavailable,
                """
                \(hierarchy.syncOrigin) on the remote is missing, although devices have published edits. It is still \
                arriving, or was lost or hidden: synchronize again later. If it stays missing, synchronize on a device that has \
                synchronized \(document.document) before, which writes it again.
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
            throw error.code == .unrelatedStore ? try await unrelatedToPushedStores() : error
        }
        let origin = SyncOrigin(baseline: baseline, rules: request.rules ?? .none)
        let sealed = seal.seal(origin.xml, as: .syncOrigin(document.identity))
        if try await hooks.createSyncOrigin(sealed, hierarchy) {
            (transfer, originFile) = (.uploaded, Data(sealed))
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

    /// The error of a document that has only stores from which this one doesn't come, and no origin.
    private func unrelatedToPushedStores() async throws -> StoreSyncError {
        let hooks = backend.wholeStoreDownloadHooks
        let stores = try await PublishedStores.list(hooks, hierarchy)
        let manifests = try await UploadCatalog(hooks, document).manifests(of: stores.considered).manifests
        let isDecided = request.takenSide != nil
        let decision = isDecided ? "" : " Then synchronize here with --take both, which keeps the rows of both stores."
        return StoreSyncError(
            undecided(.unrelatedStore),
            """
            \(request.url.path) doesn't come from a store of \(document.document) on the remote, which was pushed by \
            \(clients(Lineage.heads(of: manifests).map(\.name.client))). If another device is synchronizing the document for \
            the first time, wait until it has ended. Otherwise synchronize first on the device that has pushed, or pull to a \
            path where no store is and synchronize that.\(decision)
            """
        )
    }

    /// The error of a store that was pushed just now, although other stores on the remote have edits that it lacks.
    private func diverged(from others: [RemoteIdentifier]) -> StoreSyncError {
        StoreSyncError(
            undecided(.diverged),
            """
            \(document.document) has stores on the remote with edits that this store lacks, of \(clients(others)). If another \
            device is synchronizing the document for the first time, wait until it has ended, and synchronize again. Only if \
            none is and the error stays, let this store begin: push it with --resolves, and synchronize it. Then synchronize \
            the other stores with --take both, which keeps the rows of both.
            """
        )
    }

    /// The error of a store that lacks the edits of later uploads, which no device would get if the document began with it.
    private func continued(by heads: [UploadName]) -> StoreSyncError {
        StoreSyncError(
            undecided(.diverged),
            """
            \(request.url.path) has no edits since its last push or pull, but \(heads.map { "\($0)" }.joined(separator: " and ")) \
            on the remote has later ones. Pull first, then synchronize.
            """
        )
    }

    /// The code of a store that can't decide where the document begins.
    ///
    /// A device that synchronizes for the first time publishes its store before the origin, which this device may join
    /// without a question if the user has said what counts. Otherwise waiting doesn't help.
    private func undecided(_ code: StoreSyncError.Code) -> StoreSyncError.Code {
        request.takenSide == nil ? code : .busy
    }

    private func clients(_ clients: [RemoteIdentifier]) -> String {
        clients.isEmpty ? "other clients" : "client " + Set(clients.map(\.rawValue)).sorted().joined(separator: " and ")
    }

    func fetchOrigin() async throws -> SyncOrigin? {
        guard let bytes = try await hooks.fetchSyncOrigin(hierarchy) else { return nil }
        let opened = try seal.open(bytes, as: .syncOrigin(document.identity), at: hierarchy.syncOrigin)
        let origin = try SyncOrigin(opened, at: hierarchy.syncOrigin)
        originFile = Data(bytes)
        return origin
    }

    /// Writes the file of the origin again that this device knows, and that is missing.
    ///
    /// Its bytes are the former ones: if the file was only late, it doesn't differ.
    private func writeOriginAgain(_ memory: SynchronizationMemory) async throws -> SyncOrigin {
        let path = hierarchy.syncOrigin
        guard let file = memory.originFile else {
            throw StoreSyncError(
                .rolledBack,
                """
                \(path) on the remote is missing, and this device has seen it. It is still arriving, or was lost or hidden. If \
                it stays missing, synchronize on another device that has synchronized \(document.document) before, which \
                writes it again, or restore it from a backup.
                """
            )
        }
        let note = try await backend.documentRegistrationHooks.fetchDeletedDocumentNote(
            document.document,
            document.application.hierarchy
        )
        // The file would be left of the deleted document.
        guard
            !seal.saysDeleted(
                note,
                of: document.document,
                integrityKey: document.integrityKey,
                document.application.hierarchy
            )
        else { throw StoreSyncError.removalInterrupted(document.document) }
        _ = try await hooks.createSyncOrigin(Array(file), hierarchy)
        guard let origin = try await fetchOrigin() else {
            throw StoreSyncError(
                .remoteUnavailable,
                "\(path) on the remote is missing, and can't be read after it was written again. Try again."
            )
        }
        asideWarnings.append("\(path) was missing on the remote, so this device has written it again.")
        return origin
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
                    yet. Check the path, synchronize first on a device that has the store, or pull it if it was pushed.
                    """
                )
            }
            // Every device begins with it: what isn't a database would leave a document that no device can synchronize.
            try StoreSnapshot.checkDatabase(store)
            try StoreSyncError.translating {
                try request.rules?.validate(forStoreAt: request.url)
                try SynchronizedStore.requireWritable(storeAt: request.url, through: request.app)
            }
        }
        async let checked: Void = checkRows(context)
        let upload = WholeStoreUploadOperation(
            WholeStoreUploadRequest(url: request.url),
            document: document,
            backend: backend,
            state: state
        )
        let uploaded = try await context.addChild(upload).value
        let record = try await record(context)
        guard uploaded.continuedBy.isEmpty else { throw continued(by: uploaded.continuedBy) }
        guard uploaded.divergedFrom.isEmpty, let baseline = record?.base else {
            throw diverged(from: uploaded.divergedFrom)
        }
        try await checked
        return baseline
    }

    /// Checks that a replica can be created from the store: otherwise no device could synchronize the document, not even once
    /// the store is corrected.
    ///
    /// Only a replica shows that: text that UTF-8 can't hold, or two rows of one key in a damaged store.
    private func checkRows(_ context: OperationContext) async throws {
        // The app can write meanwhile. An error names the copy, so it has the store's name.
        let directory = try await context.temporaryDirectory().appending(path: "beginning")
        let copy = directory.appending(path: "store").appending(path: request.url.lastPathComponent)
        let replica = directory.appending(path: "replica.sqlite")
        let identity = SynchronizedStore.Identity(
            document: document.document.rawValue,
            client: ClientID(rawValue: client.rawValue),
            rules: request.rules ?? .none
        )
        try await context.blocking { [request] in
            try LocalFile.createDirectory(at: copy.deletingLastPathComponent())
            defer { try? FileManager.default.removeItem(at: directory) }
            _ = try StoreSnapshot.take(of: LocalStore(request.url), at: copy)
            try StoreSyncError.translating {
                try SynchronizedStore.createReplica(at: replica, from: .init(store: copy), identity)
            }
        }
    }
}
