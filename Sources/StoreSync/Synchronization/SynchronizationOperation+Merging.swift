import Operations
import RemoteStorage
import StoreChanges

/// Merging what other devices published with what the user changed.
extension SynchronizationOperation {
    /// What merging did.
    struct Merged: Sendable {
        /// How many sets of all clients are integrated.
        var setCount: UInt64
        var applied: [String: ChangeCounts]
        /// How many entries the conflict log has gained.
        var conflicts: Int
        var waiting: [ClientID]
        /// Whether edits wait for others that have not arrived.
        var isWaiting: Bool
        /// The tables whose definitions keep their rows from synchronizing.
        var unsuitableTables: [String]
        /// What an update of the app has added again, after an earlier one had removed it; the device remembers it until
        /// the user is told.
        var addedAgain: String?
        /// Warnings for the user, in full sentences.
        var warnings: [String]
    }

    /// Merges news with the store.
    ///
    /// If the identity of this device's last edits doesn't count any more, this device is another client from then on.
    func mergeAsRegisteredClient(
        _ news: SyncCatalog.News,
        into replica: SynchronizedReplica,
        taking side: TakenSide?,
        _ context: OperationContext
    ) async throws -> Merged {
        do {
            return try await merge(news, into: replica, taking: side, context)
        } catch var error as StoreSyncError where error.code == .identityTwice {
            // Only a registered client synchronizes, so the next synchronization is the first of the new client.
            _ = try await context.blocking { [state, key] in try state.replaceClientIdentifier(for: key.application) }
            error.message += " \(formerClient(client.rawValue))"
            throw error
        }
    }

    /// Merges news with what the user changed, and writes the result into the store.
    ///
    /// A store that is given up is copied in the transaction in which it's compared with the document: what an app writes
    /// later is an edit.
    func merge(
        _ news: SyncCatalog.News,
        into replica: SynchronizedReplica,
        taking side: TakenSide?,
        _ context: OperationContext
    ) async throws -> Merged {
        let (merged, copy) = try await replica.using(context) { [request, asideStore] store in
            let former = try store.lastConflict()
            var copy: AsideStore.Copy?
            let outcome = try store.synchronize(
                with: news.sets,
                news: news.log,
                allowsDeletions: request.allowsDeletions,
                taking: side,
                // A preview merges into a copy.
                keepingFormer: { if !request.isPreview { copy = try asideStore.keep($0) } }
            )
            let waiting = Set(try store.waitingClients()).union(outcome.missing?.clients ?? []).sorted()
            let update = outcome.needsNewerSchema ? [Self.waitsForUpdate] : []
            let missing = outcome.missing.map { [StoreChangesError($0).message] } ?? []
            let merged = Merged(
                setCount: SyncVector.total(try store.integratedSets().values.map(\.sequence)),
                applied: outcome.written,
                conflicts: try store.conflictCount(after: former),
                waiting: waiting,
                isWaiting: !waiting.isEmpty && !outcome.needsNewerSchema,
                unsuitableTables: store.unsuitableTables,
                addedAgain: outcome.addedAgain,
                warnings: update + missing + outcome.refusals.map(Self.warning)
                    + outcome.staleSearchIndexes.map(Self.warning(ofStaleSearchIndex:))
                    + (try Self.differences(from: news.heads, store))
            )
            return (merged, copy)
        }
        if let copy { note(copy) }
        return merged
    }

    /// Returns warnings about clients that merged the same edits to another result.
    ///
    /// One of both replicas is damaged, or an update of the app changed what merges, and only one device merged before it.
    private static func differences(from heads: [SyncHead], _ store: SynchronizedStore) throws -> [String] {
        try heads.compactMap { head in
            guard let stable = head.content.stable, let theirs = head.fingerprint,
                let own = try store.fingerprint(at: stable), own.contradicts(theirs)
            else { return nil }
            return """
                This device and client \(head.name.client) have merged the same edits, and their stores differ. One of them \
                merged before an update of the app, the other one after it, or what one of them remembers of the document is \
                damaged. Synchronize with --rebuild on both.
                """
        }
    }

    private static func warning(of refusal: RefusalSummary) -> String {
        let rows = refusal.count == 1 ? "1 row" : "\(refusal.count) rows"
        return """
            \(rows) of \(refusal.table) can't be written into the store of this device (\(refusal.reason)), and will be once \
            the store takes them. Other devices have them. Update the app on this device, or edit what they clash with.
            """
    }

    private static func warning(ofStaleSearchIndex name: String) -> String {
        """
        The index \(name) is out of date until the app rebuilds it: its tokenizer or a trigger can't run here. If it needs what \
        only the app has, let the app synchronize through its own connection. If a trigger says ROLLBACK, let it say ABORT.
        """
    }

    private static let waitsForUpdate =
        "Other devices have a newer version of the app. Their edits wait until the app on this device is updated."
}
