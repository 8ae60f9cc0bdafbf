/// New sets of this device.
extension Replica {
    /// The header of this device's next set.
    func nextHeader(
        seen: [ClientID: SeenSet],
        at time: UInt64,
        isMigration: Bool = false
    ) throws -> SyncChangeSet.Header {
        let owner = try owner
        // No other device would get a set of a former client: this device doesn't publish as that client any more.
        guard owner == nil || owner == client else {
            throw StoreChangesError(
                .busy,
                "Another process has just begun to synchronize the store as another client. Nothing was recorded. Try again."
            )
        }
        // A device that was restored from a backup continues after the sets that it had published. While they wait for others,
        // another set of the same number could take the place of one of them.
        let last = try log.lastArrived(of: client)
        guard try capturesVoidSets || last == log.lastIntegrated(of: client) else {
            throw MissingSets(clients: [client])
        }
        let lastHeader = try last.flatMap { try log.header(SetReference(client, $0)) }
        let (version, description) = try log.versions.versionForCapture(after: lastHeader)
        var header = SyncChangeSet.Header(
            id: SetID(client, (last?.sequence ?? 0) + 1),
            predecessor: last?.digest ?? .none,
            stamp: try nextStamp(at: time),
            seen: seen.filter { $0.key != client },
            schema: version
        )
        header.schemaDescription = description
        header.isMigration = isMigration
        return header
    }

    /// The time of this device's next set, after all times that it has read.
    private func nextStamp(at time: UInt64) throws -> Stamp {
        let stamp = Stamp(rawValue: max(try ReplicaFact.clock.readNumber(db) + 1, time))
        guard stamp <= Stamp.maximum else {
            throw StoreChangesError(
                .corrupt,
                """
                A device has published edits of the last time that can be recorded, which only a program does that is broken: no \
                device can record later ones. Nothing was recorded, and the store stays as it is. Synchronize it as another \
                document.
                """
            )
        }
        return stamp
    }

    /// Adds a new set of this device, and integrates it.
    func add(_ set: SyncChangeSet) throws -> [OwnSet] {
        let references = try integrate([set], from: .captured)
        try ReplicaFact.tokenIsOld.set(db)
        return references.map { OwnSet($0, changeCount: set.changes.count) }
    }

    /// Adds what was captured, as one set or several, and integrates it.
    ///
    /// All sets are judged and folded at once: each judgement reads all sets that aren't stable.
    ///
    /// - Parameters:
    ///   - header: The header of the first set.
    ///   - changes: What was captured; without any, a set tells the schema.
    /// - Returns: The sets.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func add(_ header: SyncChangeSet.Header, _ changes: CapturedChanges) throws -> [OwnSet] {
        guard !changes.isEmpty else { return try add(SyncChangeSet(header, [])) }
        var (header, changes, sets) = (header, changes, [OwnSet]())
        try changes.forEachSet { changes in
            if let last = sets.last { try follow(last.reference, &header) }
            let reference = try insert(SyncChangeSet(header, changes), .captured)
            sets.append(OwnSet(reference, changeCount: changes.count))
        }
        try integrateInserted()
        try ReplicaFact.tokenIsOld.set(db)
        return sets
    }

    /// Makes a header that of the set after it.
    private func follow(_ last: SetReference, _ header: inout SyncChangeSet.Header) throws {
        header.id = SetID(client, last.id.sequence + 1)
        header.predecessor = last.digest
        header.stamp = try nextStamp(at: header.stamp.rawValue)
        // The set before has it.
        header.schemaDescription = nil
    }
}
