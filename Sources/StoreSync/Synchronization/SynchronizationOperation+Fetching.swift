import Foundation
import Operations
import RemoteStorage
import StoreChanges

/// Fetching what other devices published.
extension SynchronizationOperation {
    /// Fetches the change sets that this device doesn't have.
    ///
    /// If only a baseline has some of them, the device begins again with it: because they were removed from the log, or
    /// because it has waited for them in vain.
    ///
    /// - Parameters:
    ///   - replica: The replica.
    ///   - listing: The heads that the remote has listed; `nil` to list them.
    ///   - memory: What this device remembers.
    ///   - context: The operation's context.
    /// - Returns: The sets.
    /// - Throws: ``StoreSyncError``.
    func fetch(
        for replica: SynchronizedReplica,
        listing: [String]?,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> SyncCatalog.News {
        let catalog = catalog(since: replica.origin)
        var warnings: [String] = []
        if memory.hasWaitedLong(at: state.now()) {
            warnings = try await takeBaselineWithWaitingSets(replica, &memory, context)
        }
        let known = try await replica.using(context) { try $0.knownSets() }
        var news = try await catalog.news(for: client, besides: known, memory, listing: listing)
        if let other = news.rolledBack.first {
            // Other devices need what the storage has lost of this one.
            _ = try await publish(from: replica, besides: news.own, memory, context)
            throw rolledBack(other)
        }
        guard !news.gaps.isEmpty else {
            news.warnings += warnings
            return news
        }
        // Other devices have seen these sets, and only baselines have them. What isn't published is kept.
        if news.gaps.contains(client) { try await goOnAsAnotherClient(&memory, context) }
        try await rebuild(replica, from: newest(of: baselines(since: replica.origin)), context)
        let rebuilt = try await replica.using(context) { try $0.knownSets() }
        news = try await catalog.news(for: client, besides: rebuilt, memory)
        guard news.gaps.isEmpty else { throw gap(news.gaps) }
        if let other = news.rolledBack.first { throw rolledBack(other) }
        return news
    }

    /// Begins again with the newest baseline, if it contains sets that this device lacks, and loses none that it has.
    ///
    /// Otherwise the device goes on waiting, and tries it again when it has waited as long once more.
    ///
    /// - Returns: Warnings; a baseline that can't be taken is no failure.
    private func takeBaselineWithWaitingSets(
        _ replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [String] {
        memory.waitingSince = state.now()
        try await remember(memory, context)
        let failure = "Edits that the remote lost can't be taken from a baseline; the next try is in a day."
        return try await warning(failure) {
            var kept = try await replica.using(context) { try $0.integratedSets().mapValues(\.sequence) }
            guard let baseline = try await baselines(since: replica.origin).first,
                baseline.vector.contains(where: { $1 > kept[ClientID(rawValue: $0)] ?? 0 })
            else { return [] }
            // What isn't published is in no file, but in the replica.
            kept[replica.identity.client] = memory.sequence
            try await rebuild(replica, from: baseline, keeping: kept, context)
            return []
        }
    }

    /// Returns what `body` warns of, or a warning that it failed.
    func warning(_ failure: String, if body: () async throws -> [String]) async throws -> [String] {
        do {
            return try await body()
        } catch let error as CancellationError {
            throw error
        } catch {
            return ["\(failure) \((error as? StoreSyncError)?.message ?? "\(error)")"]
        }
    }

    func rolledBack(_ client: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(
            .rolledBack,
            """
            Client \(client) has published more than \(hierarchy.recentSyncs) on the remote shows now: that is still \
            arriving, or the storage was put back to an older state. Wait until everything has arrived; if the error \
            stays, synchronize on that client.
            """
        )
    }

    /// Ends as this client, of which other devices have sets that this device can't get any more: it was restored from a
    /// backup.
    private func goOnAsAnotherClient(_ memory: inout SynchronizationMemory, _ context: OperationContext) async throws {
        let other = try await context.blocking { [state, key] in try state.replaceClientIdentifier(for: key.application)
        }
        memory.become(try RemoteIdentifier(other))
        try await remember(memory, context)
        throw StoreSyncError(
            .identityTwice,
            """
            This device was restored from a backup, and has published edits since that it doesn't have. Synchronize again \
            as another client, and none of the edits is lost.
            """
        )
    }
}
