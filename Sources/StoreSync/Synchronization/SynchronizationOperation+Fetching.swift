import Foundation
import Operations
import RemoteStorage
import StoreChanges

/// Fetching what other devices published.
extension SynchronizationOperation {
    /// Fetches the change sets that this device doesn't have.
    ///
    /// If only baselines have some of them because they were removed from the log, the device starts over with one. If it
    /// has waited for some in vain, it takes them out of baselines.
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
        var catalog = catalog(since: replica.origin)
        catalog.has = { set in try await replica.using(context) { try $0.has(set) } }
        var (setsFromBaselines, warnings): ([ReceivedSet], [String]) = ([], [])
        if memory.hasWaitedLong(at: state.now()) {
            (setsFromBaselines, warnings) = try await setsThatBaselinesHave(
                besides: replica,
                catalog.inbox,
                &memory,
                context
            )
        }
        var known = try await replica.using(context) { try $0.publishedSets() }
        for set in setsFromBaselines where set.header.id.sequence > known[set.header.id.client]?.sequence ?? 0 {
            known[set.header.id.client] = SeenSet(set.header.id.sequence, set.digest)
        }
        // Then it isn't the replica from which this device has published: that was lost, or restored from a backup.
        let lacksOwnSets = known[replica.identity.client]?.sequence ?? 0 < memory.sequence ?? 0
        if lacksOwnSets { memory.readHeadsAgain() }
        var news = try await catalog.news(for: client, besides: known, memory, listing: listing)
        if let other = news.rolledBack.first {
            // Other devices need what the storage has lost of this one.
            try await publish(from: replica, besides: news.own, &memory, context)
            throw rolledBack(other)
        }
        guard !news.gaps.isEmpty else {
            let own = news.sets.map(\.header.id).filter { $0.client == replica.identity.client }.map(\.sequence).max()
            if lacksOwnSets, own ?? 0 < memory.sequence ?? 0 { try await continueAsAnotherClient(&memory, context) }
            news.warnings += warnings
            news.sets += setsFromBaselines
            news.hasSetsFromBaselines = !setsFromBaselines.isEmpty
            return news
        }
        // Other devices have seen these sets, and only baselines have them. What isn't published is kept.
        if news.gaps.contains(client) { try await continueAsAnotherClient(&memory, context) }
        try await rebuild(replica, &memory, context)
        let rebuilt = try await replica.using(context) { try $0.publishedSets() }
        news = try await catalog.news(for: client, besides: rebuilt, memory)
        guard news.gaps.isEmpty else { throw gap(news.gaps) }
        if let other = news.rolledBack.first { throw rolledBack(other) }
        return news
    }

    /// Finds sets for which this device has long waited, in baselines of devices that had received them.
    ///
    /// A baseline has the bytes of all sets that its device kept because another one may lack them. If none has them, this
    /// device looks again when it has waited as long once more.
    ///
    /// - Returns: The sets; and warnings, because a baseline that can't be read is no failure.
    private func setsThatBaselinesHave(
        besides replica: SynchronizedReplica,
        _ inbox: ChangeSetInbox,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> ([ReceivedSet], [String]) {
        memory.waitingSince = state.now()
        hasTriedBaselines = true
        try await remember(memory, context)
        var (sets, unreadable): ([ReceivedSet], [String]) = ([], [])
        let failure = "Edits that the remote lost can't be taken from a baseline; the next try is in a day."
        let warnings = try await warning(failure) {
            let integrated = try await replica.using(context) { try $0.integratedPublishedSets().mapValues(\.sequence) }
            for baseline in try await baselines(since: replica.origin).complete
            where !baseline.isContained(in: integrated, and: sets) {
                let checkpoint: URL
                do {
                    guard let copy = try await beginning(with: baseline, replica.origin, context).checkpoint else {
                        continue
                    }
                    checkpoint = copy
                } catch let error as StoreSyncError where Self.codesOfOneBaseline.contains(error.code) {
                    unreadable.append("A store that may have the missing edits can't be read. \(error.message)")
                    continue
                }
                let found = try await context.blocking {
                    try SynchronizedStore.sets(inCheckpoint: checkpoint, after: integrated, into: inbox)
                }
                // Later sets alone would hide that earlier ones are missing.
                guard baseline.isContained(in: integrated, and: sets + found) else {
                    return unreadable + [Self.baselineIsNeeded]
                }
                sets += found
            }
            return unreadable
        }
        return (sets, warnings)
    }

    private static let baselineIsNeeded = """
        A store on the remote contains edits for which this device has waited for more than a day, and which it can't get by \
        themselves. Synchronize with --rebuild to start over with that store.
        """

    /// Returns what `body` warns of, or a warning that it failed.
    func warning(_ failure: String, if body: () async throws -> [String]) async throws -> [String] {
        do {
            return try await body()
        } catch let error as CancellationError {
            throw error
        } catch {
            return ["\(failure) \(StoreSyncError.sentence(about: error))"]
        }
    }

    func rolledBack(_ client: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(
            .rolledBack,
            """
            Client \(client) has published more than \(hierarchy.recentSyncs) on the remote shows now: that is still \
            arriving, or the storage was put back to an older state. Wait until everything has arrived; if the error \
            stays, synchronize on that client, or remove the client if its device is lost.
            """
        )
    }

    /// Ends as this client, of which other devices have sets that this device can't get any more: it was restored from a
    /// backup.
    func continueAsAnotherClient(_ memory: inout SynchronizationMemory, _ context: OperationContext) async throws {
        let other = try await context.blocking { [state, key] in try state.replaceClientIdentifier(for: key.application)
        }
        let former = formerClient(memory.client)
        memory.become(try RemoteIdentifier(other))
        try await remember(memory, context)
        throw StoreSyncError(
            .identityTwice,
            """
            This device was restored from a backup, and has published edits since that it doesn't have. Synchronize again \
            as another client, and none of the edits is lost. \(former)
            """
        )
    }

    /// Says which client this device was, for a user who finds both in the list of clients.
    func formerClient(_ client: String) -> String { "Until now, this device was client \(client)." }
}
