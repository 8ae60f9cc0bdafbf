import Foundation
import Operations
import RemoteStorage
import StoreChanges

/// Finding out what a synchronization would do.
extension SynchronizationOperation {
    /// Finds out what a synchronization would do, on copies of the store and its replica.
    func preview(_ context: OperationContext) async throws -> Synchronization {
        let folder = try await context.temporaryDirectory()
        let origin = try await fetchOrigin()
        if let origin { try refuseOtherRules(than: origin) }
        guard let origin, case let replica = replica(since: origin),
            try await replica.exists(context)
        else {
            throw StoreSyncError.nothingToPreview(document.document)
        }
        // The replica itself isn't opened: that would bring it to the schema of a store that the user may not take.
        let copy = replica.copied(to: folder)
        try await context.blocking { [request] in
            _ = try StoreSnapshot.take(of: LocalStore(request.url), at: copy.store)
            _ = try StoreSnapshot.take(of: LocalStore(replica.url), at: copy.url)
        }
        let memory = try await memory(since: origin, context)
        if try await settledRecord(context)?.base != memory.base { try await forgetStore(of: copy, context) }
        let known = try await copy.using(context) { store in
            try store.adopt()
            return try store.publishedSets()
        }
        let published = memory.client == client.rawValue ? memory.sequence ?? 0 : 0
        let news = try await catalog(since: origin).news(for: client, besides: known, memory)
        if let other = news.rolledBack.first { throw rolledBack(other) }
        // What the heads say without their sets would make edits wait that the synchronization finds in a baseline.
        let integrated = news.gaps.isEmpty ? news : SyncCatalog.News()
        let merged: Merged
        do {
            merged = try await merge(integrated, into: copy, taking: request.takenSide, context)
        } catch let error as StoreSyncError where error.code == .identityTwice {
            throw previewNeedsOtherClient(error)
        }
        let unpublished = try await copy.using(context) { try $0.publication(after: published, head: 0) }
        return synchronization(
            merged,
            news,
            Published(
                sequence: unpublished.head.last?.sequence ?? 0,
                changes: unpublished.sets.reduce(0) { $0 + $1.changeCount },
                bytes: Int64(unpublished.sets.reduce(0) { $0 + $1.byteCount })
            ),
            warnings: news.gaps.isEmpty ? [] : [Self.previewLacksNews]
        )
    }

    /// The error of a preview that can't be made before this device is another client, which a preview doesn't change.
    private func previewNeedsOtherClient(_ cause: StoreSyncError) -> StoreSyncError {
        StoreSyncError(
            .identityTwice,
            """
            A preview can't show what a synchronization would do, because this device's last edits were captured under an \
            identity that doesn't count any more. Synchronize without a preview (without --dry-run): this device then \
            continues as another client, and none of the edits is lost.
            """,
            cause: cause
        )
    }

    private static let previewLacksNews = """
        Other devices have removed edits from the log that this device lacks. The synchronization will start over with a \
        store on the remote, so this preview has nothing of what it will receive.
        """
}

extension SynchronizedReplica {
    /// The same replica, of a copy of the store.
    fileprivate func copied(to folder: URL) -> SynchronizedReplica {
        SynchronizedReplica(
            origin: origin,
            store: folder.appending(path: "store.sqlite"),
            url: folder.appending(path: "replica.sqlite"),
            identity: identity,
            options: SynchronizedStore.Options(takesOtherStore: options.takesOtherStore, now: options.now)
        )
    }
}

extension StoreSyncError {
    /// The error of a preview on a device that hasn't synchronized a document yet.
    static func nothingToPreview(_ document: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(
            .noUploadedStore,
            """
            This device hasn't synchronized \(document) yet, so there is nothing to compare with. storesync check says \
            which tables will synchronize.
            """
        )
    }
}
