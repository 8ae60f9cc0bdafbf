/// A set by its number and its content.
///
/// A copy of a device has the identifier of the original, so two sets may have one number.
package struct SetReference: Hashable, Sendable {
    /// The set's client and number.
    package var id: SetID
    /// The digest of the set's bytes.
    package var digest: SetDigest

    /// Creates a reference.
    package init(_ id: SetID, _ digest: SetDigest) {
        self.id = id
        self.digest = digest
    }

    init(_ client: ClientID, _ seen: SeenSet) { self.init(SetID(client, seen.sequence), seen.digest) }
}

/// A set of the log without its changes.
package struct LogEntry: Hashable, Sendable {
    /// Everything that orders the set and decides whether it counts.
    package var header: SyncChangeSet.Header
    /// The digest of the set's bytes.
    package var digest: SetDigest
    /// Whether this device has taken the set back, which no other device knows.
    package var isWithdrawn = false

    package init(_ header: SyncChangeSet.Header, _ digest: SetDigest) {
        self.header = header
        self.digest = digest
    }

    package init(_ set: SyncChangeSet) { self.init(set.header, SetDigest(of: set.encoded)) }

    package var id: SetID { header.id }
    package var reference: SetReference { SetReference(id, digest) }
    package var position: SetPosition { header.position }

    /// The client's previous set; `nil` for the first one.
    var predecessor: SetReference? {
        id.sequence > 1 ? SetReference(SetID(id.client, id.sequence - 1), header.predecessor) : nil
    }
}
