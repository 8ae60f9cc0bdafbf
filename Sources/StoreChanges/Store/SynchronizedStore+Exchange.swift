/// What devices exchange: change sets.
extension SynchronizedStore {
    /// The last set of each client that has arrived and isn't void, as far as that is known.
    package func setsThatMayCount() throws -> [ClientID: SeenSet] {
        try readReplica { try ReplicaLog.knownSets($0.db, where: ReplicaLog.Status.isNotVoid) }
    }

    /// The last set of each client that this device has and other devices may know.
    package func publishedSets() throws -> [ClientID: SeenSet] {
        try readReplica { try ReplicaLog.knownSets($0.db, where: ReplicaLog.Origin.isShared) }
    }

    /// Makes the store's replica belong to this client, if it's a former one's.
    ///
    /// Call it before the client's first head is published.
    package func adopt() throws {
        try writeReplica { replica in
            guard try replica.owner != replica.client else { return }
            _ = try store.read { try replica.finishWritten($0) }
            try replica.adopt()
        }
    }

    /// Integrates sets, and leaves the store as it is.
    package func integrate(_ sets: [any ChangeSetSource], news: LogNews) throws {
        try writeReplica { replica in
            _ = try store.read { try replica.finishWritten($0) }
            try replica.learn(sets, news)
        }
    }

    /// Notes that what this device has to publish may be on the storage from now on.
    package func note(_ publication: Publication) throws {
        try writeReplica { replica in
            try replica.log.notePublication(of: publication.head.client, upTo: publication.head.last?.sequence ?? 0)
        }
    }

    /// What this device's next head says of its own sets and of what the store has seen, without what is stable or void.
    package func progress() throws -> ClientHead {
        try readReplica { try $0.progress() }
    }

    /// What this device has to publish.
    package struct Publication: Sendable {
        /// What the next head says.
        package var head: ClientHead
        /// The device's own sets that weren't published yet, in order.
        package var sets: [PublishedSet]
        /// The state after what is stable; `nil` if nothing is.
        package var fingerprint: Fingerprint?
    }

    /// A set of this device that goes into a file.
    package struct PublishedSet: Hashable, Sendable {
        /// Its number.
        package var sequence: UInt64
        /// The digest of its bytes.
        package var digest: SetDigest
        /// The number of its changes.
        package var changeCount: Int
        /// The size of its bytes.
        package var byteCount: Int

        fileprivate init(_ set: EncodedChangeSet) {
            (sequence, digest) = (set.header.id.sequence, set.digest)
            (changeCount, byteCount) = (set.changeCount, set.encoded.count)
        }
    }

    /// Returns what this device has to publish.
    ///
    /// - Parameters:
    ///   - sequence: The number of the last own set that needn't be published.
    ///   - number: The number of the next head.
    /// - Returns: The head, and the sets.
    /// - Throws: ``StoreChangesError``.
    package func publication(after sequence: UInt64, head number: UInt64) throws -> Publication {
        try readReplica { replica in
            let head = try replica.head(number: number)
            var sets: [PublishedSet] = []
            try replica.forEachOwnSet(after: sequence, upTo: .max) {
                sets.append(PublishedSet($0))
            }
            return Publication(
                head: head,
                sets: sets,
                fingerprint: try head.stable.flatMap(replica.fingerprint)
            )
        }
    }

    /// This device's sets of these numbers, in order, as far as it has them.
    package func ownSets(_ numbers: ClosedRange<UInt64>) throws -> [EncodedChangeSet] {
        try readReplica { replica in
            var sets: [EncodedChangeSet] = []
            try replica.forEachOwnSet(after: numbers.lowerBound - 1, upTo: numbers.upperBound) { sets.append($0) }
            return sets
        }
    }

    /// What this device remembers of the storage besides sets.
    package func knowledge() throws -> LogKnowledge {
        try readReplica { try ReplicaKnowledge($0.db).read() }
    }

    /// The digests that two undamaged replicas share after they integrated the same sets in the same schema.
    package struct Fingerprint: Hashable, Sendable {
        /// The digest of the state.
        package var state: [UInt8]
        /// The digest of the schema, and of which rows the state's digest contains.
        package var schema: [UInt8]

        package init(state: [UInt8], schema: [UInt8]) {
            (self.state, self.schema) = (state, schema)
        }

        /// Whether the states differ although they shouldn't.
        package func contradicts(_ other: Fingerprint) -> Bool { schema == other.schema && state != other.state }
    }

    /// The state after the sets of a prefix; `nil` if this replica doesn't have exactly these sets up to there.
    package func fingerprint(at prefix: StablePrefix) throws -> Fingerprint? {
        try readReplica { try $0.fingerprint(at: prefix) }
    }

    /// The last set of each client that is integrated.
    package func integratedSets() throws -> [ClientID: SeenSet] {
        try readReplica { try $0.log.integrated() }
    }

    /// The number of the sets that every baseline has because a device may not have seen them, and their size in bytes.
    package func logSize() throws -> (sets: UInt64, bytes: Int64) {
        try readReplica { try $0.log.size() }
    }

    /// The last set of each client that is integrated and that other devices may know.
    package func integratedPublishedSets() throws -> [ClientID: SeenSet] {
        let condition = "\(ReplicaLog.Status.isIntegrated) AND \(ReplicaLog.Origin.isShared)"
        return try readReplica { try ReplicaLog.knownSets($0.db, where: condition) }
    }

    /// Whether a set has arrived that other devices may know, whether it counts or not.
    package func has(_ set: SetReference) throws -> Bool {
        try readReplica { try $0.log.has(set, where: ReplicaLog.Origin.isShared) }
    }

    /// Whether a set of a client is integrated, and not another one of its number.
    package func counts(_ set: SeenSet, of client: ClientID) throws -> Bool {
        try readReplica { try $0.log.counts(SetReference(client, set)) }
    }

    /// Remembers what the storage says besides sets.
    package func remember(_ news: LogNews) throws { try integrate([], news: news) }

    /// Whether the last set of this device's client doesn't count: the device has to continue as another client.
    package func hasLostIdentity() throws -> Bool {
        try readReplica { try $0.hasLostIdentity() }
    }

    /// Forgets what no set can need any more; call it when all heads are remembered that the storage lists.
    ///
    /// - Parameter sequence: The number of this device's last set that is published.
    /// - Throws: ``StoreChangesError``.
    package func trim(publishedUpTo sequence: UInt64) throws {
        try writeReplica { try $0.trim(publishedUpTo: sequence) }
    }

    /// Forgets the bytes of this device's own sets that it will never publish again.
    ///
    /// - Parameter sequence: The number of the last own set that was removed from the remote.
    /// - Throws: ``StoreChangesError``.
    package func forgetOwnSets(upTo sequence: UInt64) throws {
        try writeReplica { try $0.forgetOwnSets(upTo: sequence) }
    }

    /// The clients whose sets wait for sets that have not arrived.
    package func waitingClients() throws -> [ClientID] {
        try readReplica { try $0.waitingClients() }
    }
}

extension Replica {
    fileprivate func forEachOwnSet(
        after first: UInt64,
        upTo last: UInt64,
        _ body: (EncodedChangeSet) throws -> Void
    ) throws {
        try db.forEach(
            """
            SELECT bytes FROM sets
            WHERE client = ? AND sequence > ? AND sequence <= ? AND \(ReplicaLog.Status.isIntegrated) AND bytes IS NOT NULL
            ORDER BY sequence
            """,
            [.text(client.rawValue), .integer(Int64(clamping: first)), .integer(Int64(clamping: last))]
        ) { try body(EncodedChangeSet(decoding: $0.bytes(0) ?? [])) }
    }

    fileprivate func waitingClients() throws -> [ClientID] {
        try db.all("SELECT DISTINCT client FROM sets WHERE \(ReplicaLog.Status.isWaiting) ORDER BY client").map {
            $0.client(0)
        }
    }
}
