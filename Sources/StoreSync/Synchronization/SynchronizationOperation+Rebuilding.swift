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
        try refuseIncomplete(available, news, memory)
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

    /// Refuses to rebuild a replica while the remote lacks edits of other clients or of this device.
    private func refuseIncomplete(
        _ available: [ClientID: UInt64],
        _ news: SyncCatalog.News,
        _ memory: SynchronizationMemory
    ) throws {
        let removals = news.log.removals
        let missing = memory.lastSetsNamedByHeads.filter { available[$0] ?? 0 < min($1, removals[$0] ?? .max) }
        var reasons: [String] = []
        if !missing.isEmpty {
            reasons.append(
                """
                The replica can't be rebuilt yet, because the remote doesn't show all edits of \
                \(missing.keys.map(\.rawValue).sorted().joined(separator: ", ")) that this device has seen: they are still \
                arriving, or were lost. Synchronize again later; if the error stays, synchronize on that client, or run \
                storesync vacuum on a device that has these edits.
                """
            )
        }
        // The former replica doesn't have these own sets any more.
        if available[ClientID(rawValue: memory.client)] ?? 0 < memory.removed {
            reasons.append(
                """
                The replica can't be rebuilt yet, because no store on the remote shows all edits that this device has \
                published: such a store is still arriving, or was lost. Synchronize again later; if the error stays, run \
                storesync vacuum on a device that has these edits.
                """
            )
        }
        guard !reasons.isEmpty else { return }
        throw StoreSyncError(.remoteUnavailable, (reasons + news.warnings).joined(separator: " "))
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
}
