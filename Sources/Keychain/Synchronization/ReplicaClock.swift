import Foundation

/// The logical clock of a keychain: its replica identifier, the edits that it has seen, and the edits that it has published.
///
/// A replica is a keychain for as long as it keeps one replica identifier. Its stamps count its edits under that identifier. So
/// a replica that has seen a stamp has also seen each earlier edit, or knows how it ended. When that would no longer be true,
/// the keychain takes a new identifier.
struct ReplicaClock: Equatable, Sendable {
    /// The limit that all counters are below: this number is still exact in every language.
    static let end: UInt64 = 1 << 53
    /// The number of its own publications that a keychain remembers.
    static let rememberedPublications = 64

    /// The current identifier of this keychain.
    private(set) var replica: UUID
    /// The greatest counter that this keychain knows of.
    private(set) var counter: UInt64 = 0
    /// The counter up to which this replica's edits are known to be published.
    private(set) var published: UInt64 = 0
    /// The number of edits of items of this device alone.
    private(set) var version: UInt64 = 0
    /// The counter of each replica up to which its edits are contained here.
    ///
    /// An edit that was overruled, or that all clients have forgotten, counts as contained.
    private(set) var seen: [UUID: UInt64] = [:]
    /// The publications that this keychain has prepared, the newest last.
    private(set) var publications: [UUID] = []

    /// Whether an edit is contained here.
    func hasSeen(_ stamp: Stamp) -> Bool { stamp.counter <= seen[stamp.replica, default: 0] }

    /// The counter of the last edit under the current replica identifier.
    var issued: UInt64 { seen[replica, default: 0] }

    /// Returns the stamp for a new edit.
    mutating func nextStamp() throws(KeychainError) -> Stamp {
        guard counter + 1 < Self.end else { throw .exhausted }
        counter += 1
        seen[replica] = counter
        return Stamp(counter: counter, replica: replica)
    }

    /// Returns the version for a new edit of an item of this device alone.
    mutating func nextVersion() throws(KeychainError) -> UInt64 {
        guard version + 1 < Self.end else { throw .exhausted }
        version += 1
        return version
    }

    /// Records that all edits that another replica has seen are contained here.
    mutating func observe(_ others: [UUID: UInt64], _ stamps: some Sequence<Stamp>) {
        seen.merge(others) { max($0, $1) }
        counter = max(counter, others.values.max() ?? 0, stamps.map(\.counter).max() ?? 0)
    }

    /// Records that this replica's edits up to this counter are in its published file.
    mutating func notePublished(upTo counter: UInt64) {
        published = max(published, counter)
    }

    /// Remembers a file that is about to be published.
    mutating func prepare(_ publication: UUID) {
        publications = (publications + [publication]).suffix(Self.rememberedPublications)
    }

    /// Takes a new replica identifier, under which no edit has been seen.
    mutating func renew(as replica: UUID) {
        self.replica = replica
        seen = [:]
        published = 0
    }

    /// Returns the stamp, under the current replica identifier, of an edit that was made under a former one.
    mutating func restamp(_ stamp: Stamp) -> Stamp {
        seen[replica] = max(issued, stamp.counter)
        return Stamp(counter: stamp.counter, replica: replica)
    }
}

extension KeychainError {
    fileprivate static let exhausted = KeychainError(
        .full,
        """
        The keychain's counter has reached its limit, which normal use can't do: another device may have set it. \
        Create a new keychain.
        """
    )
}
