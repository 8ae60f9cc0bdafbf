import Foundation
import Operations
import RemoteStorage
import StoreChanges

extension SynchronizationOperation {
    /// Builds the replica again from what is on the remote, and keeps the edits that aren't published.
    ///
    /// - Parameters:
    ///   - replica: The replica.
    ///   - memory: What this device remembers.
    ///   - context: The operation's context.
    /// - Throws: ``StoreSyncError`` with `remoteUnavailable` if sets are missing that the rebuilt replica must have.
    func rebuild(
        _ replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws {
        context.reportProgress(OperationProgress(fractionCompleted: 0.1, phase: "rebuilding"))
        let beginning = try await withFirst(readableOf: baselines(since: replica.origin).complete) {
            try await self.beginning(with: $0, replica.origin, context)
        }
        let known = try await context.blocking {
            try StoreSyncError.translating {
                try beginning.checkpoint.map(SynchronizedStore.knownSets(inCheckpoint:)) ?? [:]
            }
        }
        memory.readHeadsAgain()
        let news = try await catalog(since: replica.origin).news(for: client, besides: known, memory)
        guard news.gaps.isEmpty else { throw gap(news.gaps) }
        if let other = news.rolledBack.first { throw rolledBack(other) }
        let available = known.mapValues(\.sequence).merging(
            news.sets.map { ($0.header.id.client, $0.header.id.sequence) },
            uniquingKeysWith: max
        )
        let removals = news.log.removals
        let missingOfOthers = memory.lastSetsNamedByHeads.filter { available[$0] ?? 0 < min($1, removals[$0] ?? .max) }
        // The former replica doesn't have these own sets any more.
        let lacksOwnSets = available[ClientID(rawValue: memory.client)] ?? 0 < memory.removed
        let missing = missingOfOthers.keys.map(\.rawValue).sorted()
        guard missing.isEmpty && !lacksOwnSets else {
            throw notYetRebuilt(without: missing, lacksOwnSets, news.warnings)
        }
        try await remember(memory, context)
        var sources = SynchronizedStore.Sources(beginning: beginning, sets: news.sets, news: news.log)
        sources.allowsDeletions = request.allowsDeletions
        // What a former client of this device captured is still published as its.
        let former = replica.opened(as: ClientID(rawValue: memory.client)).identity
        sources.hasAllOwnSets = available[former.client] ?? 0 >= memory.sequence ?? 0
        do {
            let isFormerReadable = try await context.blocking { [sources] in
                try StoreSyncError.translating {
                    try SynchronizedStore.rebuildReplica(
                        at: replica.url,
                        ofStoreAt: replica.store,
                        from: sources,
                        former,
                        options: replica.options
                    )
                }
            }
            if !isFormerReadable { asideWarnings.append(unreadableReplica) }
        } catch let error as StoreSyncError where error.code == .identityTwice {
            try await continueAsAnotherClient(&memory, context)
        }
    }

    /// The error of a replica that can't be rebuilt, because the remote lacks edits of other clients or of this device.
    private func notYetRebuilt(without clients: [String], _ lacksOwnSets: Bool, _ warnings: [String]) -> StoreSyncError
    {
        var reasons: [String] = []
        if !clients.isEmpty {
            reasons.append(
                """
                The replica can't be rebuilt yet, because the remote doesn't show all edits of \
                \(clients.joined(separator: ", ")) that this device has seen: they are still arriving, or were lost. \
                Synchronize again later; if the error stays, synchronize on that client, or run storesync vacuum on a device \
                that has these edits.
                """
            )
        }
        if lacksOwnSets {
            reasons.append(
                """
                The replica can't be rebuilt yet, because no store on the remote shows all edits that this device has \
                published: such a store is still arriving, or was lost. Synchronize again later; if the error stays, run \
                storesync vacuum on a device that has these edits.
                """
            )
        }
        return StoreSyncError(.remoteUnavailable, (reasons + warnings).joined(separator: " "))
    }

    private var unreadableReplica: String {
        """
        This device's record of \(request.url.lastPathComponent) couldn't be read, so the rows of the store and of the \
        document were matched, as --take both does: rows that were deleted here and not published are back, rows with an \
        integer key that were changed here may be there twice, and storesync conflicts lists values that were given up.
        """
    }

    /// The error of sets that neither the remote nor the newest baseline has.
    func gap(_ clients: [RemoteIdentifier]) -> StoreSyncError {
        StoreSyncError(
            .remoteUnavailable,
            """
            Edits of \(clients.map(\.rawValue).joined(separator: ", ")) were removed from the log, and no store on the remote \
            contains them yet. It is still arriving: synchronize again later, or run storesync vacuum on a device that has \
            the document.
            """
        )
    }

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
