import Foundation

/// The synchronizable items of a keychain: what each client's file is merged into, and made of.
///
/// A value without input or output. Two replicas that have seen the same edits hold the same items, in whatever order they saw
/// them. What an item became by its last edit overrules what it was; and an item that somebody doesn't hold, but has seen, was
/// deleted, and everybody knew of it. So tombstones can go, and stay gone, even where an old file turns up again.
struct KeychainReplica: Hashable, Sendable {
    var clock: ReplicaClock
    var entries: [ItemKey: ItemEntry] = [:]

    /// Merges all clients' files, forgets tombstones that everybody knows of, and says what to publish next.
    ///
    /// - Parameters:
    ///   - files: The files by their clients, this one's included.
    ///   - client: This client.
    ///   - registered: All clients of the application.
    ///   - identifier: Makes identifiers; another one each time.
    /// - Returns: What to publish as this client's file; `nil` if it says all that already.
    /// - Throws: ``KeychainError/Code/full``, and the value isn't to be used any more.
    mutating func merge(
        _ files: [String: KeychainFile],
        as client: String,
        registered: Set<String>,
        identifier: () -> UUID
    ) throws(KeychainError) -> KeychainFile? {
        let own = files[client]
        if isLivedTwice(own, files) {
            try renew(as: identifier())
        } else if let own, own.replica == clock.replica {
            clock.notePublished(upTo: own.seen[own.replica, default: 0])
        }
        for (_, file) in files.sorted(by: { $0.key < $1.key }) { join(file) }
        collectTombstones(files, registered.union([client]))
        try checkLimits()
        let next = KeychainFile(
            replica: clock.replica,
            publication: identifier(),
            seen: clock.seen,
            entries: entries
        )
        if let own, own.saysTheSame(as: next) { return nil }
        clock.prepare(next.publication)
        return next
    }

    /// Removes items from here without a trace, and so begins another life: it hasn't seen them.
    mutating func blitz(_ keys: some Sequence<ItemKey>, as replica: UUID) throws(KeychainError) {
        for key in keys where entries[key]?.secret != nil { entries[key] = nil }
        try renew(as: replica)
    }

    /// Whether somebody else lives, or lived, as this replica: a copied device, or one that was restored from a backup.
    private func isLivedTwice(_ own: KeychainFile?, _ files: [String: KeychainFile]) -> Bool {
        if let own, !clock.publications.contains(own.publication) { return true }
        return files.values.contains { $0.seen[clock.replica, default: 0] > clock.issued }
    }

    /// Begins another life.
    ///
    /// What isn't known to be published counts as edited now: under its old stamp the others may believe to have seen it.
    private mutating func renew(as replica: UUID) throws(KeychainError) {
        let former = clock
        clock.renew(as: replica)
        let pending = entries.filter { $1.stamp.replica == former.replica && $1.stamp.counter > former.published }
        for (key, entry) in pending.sorted(by: { $0.value.stamp < $1.value.stamp }) {
            entries[key] = ItemEntry(stamp: try clock.nextStamp(), secret: entry.secret)
        }
    }

    private mutating func join(_ file: KeychainFile) {
        for (key, entry) in entries where file.entries[key] == nil && file.hasSeen(entry.stamp) {
            entries[key] = nil
        }
        for (key, entry) in file.entries {
            if let own = entries[key] {
                if entry.wins(over: own) { entries[key] = entry }
            } else if !clock.hasSeen(entry.stamp) {
                entries[key] = entry
            }
        }
        clock.observe(file.seen, file.entries.values.lazy.map(\.stamp))
    }

    /// A tombstone goes when the file of every registered client, this one's too, says that it has seen it.
    private mutating func collectTombstones(_ files: [String: KeychainFile], _ registered: Set<String>) {
        let published = registered.map { files[$0] }
        for (key, entry) in entries where entry.secret == nil {
            if published.allSatisfy({ $0?.hasSeen(entry.stamp) == true }) { entries[key] = nil }
        }
    }

    private func checkLimits() throws(KeychainError) {
        let items = entries.values.count { $0.secret != nil }
        guard items <= KeychainLimits.items, entries.count - items <= KeychainLimits.tombstones,
            clock.seen.count <= KeychainFile.mostReplicas
        else {
            throw KeychainError(
                .full,
                """
                The clients' keychains together hold more than \(KeychainLimits.items) items or more than \
                \(KeychainLimits.tombstones) deletions. Delete items, and deregister clients that no longer synchronize.
                """
            )
        }
    }
}
