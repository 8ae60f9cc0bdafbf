import Foundation

/// What a keychain knows of time: who it is, what it has seen of whom, what it gave to the others.
///
/// A replica is one life of one keychain. Its stamps count what it did in this life, so another that had seen a stamp of it has
/// seen, or knows the end of, everything before. When that would no longer be true a keychain begins another life.
struct ReplicaClock: Hashable, Sendable {
    /// Counters are below this: one more is still a number, in every language.
    static let end: UInt64 = 1 << 53
    /// How many publications of its own a keychain recognises.
    static let rememberedPublications = 64

    /// Who this keychain is, in this life.
    private(set) var replica: UUID
    /// The greatest counter there is, as far as it's known here.
    private(set) var counter: UInt64
    /// Of each replica, up to which counter its edits are contained here: as they were, or overruled, or forgotten by all.
    private(set) var seen: [UUID: UInt64]
    /// Up to which counter this replica's edits are known to have been published.
    private(set) var published: UInt64
    /// What was made to be published, the newest last.
    private(set) var publications: [UUID]
    /// How many edits of items of this device alone there were.
    private(set) var version: UInt64

    init(
        replica: UUID,
        counter: UInt64 = 0,
        published: UInt64 = 0,
        version: UInt64 = 0,
        seen: [UUID: UInt64] = [:],
        publications: [UUID] = []
    ) {
        self.replica = replica
        self.counter = counter
        self.published = published
        self.version = version
        self.seen = seen
        self.publications = publications
    }

    /// Whether an edit is contained.
    func hasSeen(_ stamp: Stamp) -> Bool { stamp.counter <= seen[stamp.replica, default: 0] }

    /// The counter of the last edit made here, in this life.
    var issued: UInt64 { seen[replica, default: 0] }

    /// The stamp of an edit that is made now.
    mutating func nextStamp() throws(KeychainError) -> Stamp {
        guard counter + 1 < Self.end else { throw .exhausted }
        counter += 1
        seen[replica] = counter
        return Stamp(counter: counter, replica: replica)
    }

    /// The version of an item of this device alone that is made or changed now.
    mutating func nextVersion() throws(KeychainError) -> UInt64 {
        guard version + 1 < Self.end else { throw .exhausted }
        version += 1
        return version
    }

    /// Everything that another has seen is contained now.
    mutating func observe(_ others: [UUID: UInt64], _ stamps: some Sequence<Stamp>) {
        seen.merge(others) { max($0, $1) }
        counter = max(counter, others.values.max() ?? 0, stamps.map(\.counter).max() ?? 0)
    }

    /// This replica's edits up to here are in its file.
    mutating func notePublished(upTo counter: UInt64) {
        published = max(published, counter)
    }

    /// Remembers what is about to be published.
    mutating func prepare(_ publication: UUID) {
        publications = (publications + [publication]).suffix(Self.rememberedPublications)
    }

    /// Begins another life, that has seen nothing.
    mutating func renew(as replica: UUID) {
        self.replica = replica
        seen = [:]
        published = 0
    }
}

extension KeychainError {
    fileprivate static let exhausted = KeychainError(
        .full,
        """
        The keychain's counter has come to its end, which no honest use brings about: another device may have set it so. \
        Make a new keychain.
        """
    )
}
