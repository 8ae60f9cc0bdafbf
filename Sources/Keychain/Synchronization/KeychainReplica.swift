import Foundation

/// The synchronizable items of a keychain, which merges the clients' files and produces this client's file.
///
/// A value type without input or output. Two replicas that have seen the same edits hold the same items, in whatever order they
/// saw them. An item's last edit overrules its earlier edits. If a file doesn't hold an item but has seen its edit, the item was
/// deleted and all clients knew of it. So tombstones can be removed for good, even if an old file reappears later.
struct KeychainReplica: Equatable, Sendable {
    var clock: ReplicaClock
    var entries: [ItemKey: ItemEntry] = [:]

    /// Merges all clients' files, removes tombstones that all clients know of, and returns the file to publish next.
    ///
    /// - Parameters:
    ///   - files: The files by client, including this client's.
    ///   - client: This client.
    ///   - registered: All clients of the application.
    ///   - identifier: Returns another identifier at each call.
    /// - Returns: The file to publish for this client; `nil` if its file is up to date.
    /// - Throws: ``KeychainError/Code/full``; don't use the replica afterwards.
    mutating func merge(
        _ files: [String: KeychainFile],
        as client: String,
        registered: Set<String>,
        identifier: () -> UUID
    ) throws(KeychainError) -> KeychainFile? {
        let own = files[client]
        if isLivedTwice(own, files) {
            renew(as: identifier())
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

    /// Removes items from this device without leaving tombstones, and takes a new replica identifier.
    ///
    /// Under its former identifier it would claim to have seen these items, and other clients would take them for deleted.
    mutating func blitz(_ keys: some Sequence<ItemKey>, as replica: UUID) {
        for key in keys where entries[key]?.secret != nil { entries[key] = nil }
        renew(as: replica)
    }

    /// Whether another keychain uses, or used, this replica identifier: the device was copied, or restored from a backup.
    private func isLivedTwice(_ own: KeychainFile?, _ files: [String: KeychainFile]) -> Bool {
        if let own, !clock.publications.contains(own.publication) { return true }
        return files.values.contains { $0.seen[clock.replica, default: 0] > clock.issued }
    }

    /// Takes a new replica identifier.
    ///
    /// An edit that isn't known to be published gets a stamp under it: the other clients may believe that they have seen its old
    /// stamp. The counter stays, since an edit that knew of this one must still overrule it.
    private mutating func renew(as replica: UUID) {
        let former = clock
        clock.renew(as: replica)
        for (key, entry) in entries
        where entry.stamp.replica == former.replica && entry.stamp.counter > former.published {
            entries[key] = ItemEntry(stamp: clock.restamp(entry.stamp), secret: entry.secret)
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

    /// Removes the tombstones that every registered client's file, including this client's, has seen.
    private mutating func collectTombstones(_ files: [String: KeychainFile], _ registered: Set<String>) {
        let published = registered.map { files[$0] }
        for (key, entry) in entries where entry.secret == nil {
            if published.allSatisfy({ $0?.hasSeen(entry.stamp) == true }) { entries[key] = nil }
        }
    }

    private func checkLimits() throws(KeychainError) {
        let items = entries.values.count { $0.secret != nil }
        guard items <= KeychainLimits.items, entries.count - items <= KeychainLimits.tombstones,
            clock.seen.count <= KeychainFile.maximumReplicas
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
