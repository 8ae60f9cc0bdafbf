extension Replica {
    /// Remembers what the storage says besides sets, and integrates the sets that count by now.
    ///
    /// - Parameter news: Heads and removals.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    package func remember(_ news: LogNews) throws {
        try keepStoreSeen()
        try note(news)
        try log.integrate()
    }

    /// Remembers what the storage says besides sets; the next integration judges the sets by it.
    func note(_ news: LogNews) throws {
        if try ReplicaKnowledge(db).remember(news) { try log.markUnjudged() }
        for prefix in news.heads.compactMap(\.stable) { try advanceClock(to: prefix.position.stamp) }
    }

    /// Forgets what no set can need any more.
    ///
    /// Call it after all heads were remembered that the storage lists.
    ///
    /// - Parameter sequence: The number of this device's last set that is published. Of later ones, a copy of this device
    ///   may publish others, and then they are void and have to be undone.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    package func trim(publishedUpTo sequence: UInt64) throws {
        var seen = try storeSeen()
        if let last = seen[client], last.sequence > sequence { seen[client] = try ownSet(sequence) }
        try ReplicaTrimming(log).trim(for: client, storeSeen: seen)
    }

    /// Forgets the bytes of this device's stable sets up to a number: baselines contain them, and all clients have seen them.
    ///
    /// - Parameter sequence: The number of the last own set that was removed from the remote.
    /// - Throws: `DatabaseError`.
    package func forgetOwnSets(upTo sequence: UInt64) throws {
        try db.execute(
            """
            UPDATE sets SET bytes = NULL
            WHERE client = ? AND sequence <= ? AND \(ReplicaLog.Status.isStable) AND bytes IS NOT NULL
            """,
            SetID(client, sequence).values
        )
    }

    /// This device's set of a number, if it counts.
    private func ownSet(_ sequence: UInt64) throws -> SeenSet? {
        try db.first(
            "SELECT digest FROM sets WHERE client = ? AND sequence = ? AND \(ReplicaLog.Status.isIntegrated)",
            SetID(client, sequence).values
        ).map { SeenSet(sequence, try $0.digest(0)) }
    }

    /// What this device's next head says of its own sets and of what the store has seen; for that no other set is read.
    ///
    /// - Throws: `DatabaseError`.
    func progress() throws -> ClientHead {
        let seen = try storeSeen().filter { $0.key != client }
        return ClientHead(client, number: 0, last: try log.lastIntegrated(of: client), seen: seen)
    }

    /// What this device's next head says.
    ///
    /// - Parameter number: The number of the head.
    /// - Returns: The head: with what the *store* has seen, because the next set will have seen at least that.
    /// - Throws: `DatabaseError`.
    package func head(number: UInt64) throws -> ClientHead {
        var head = try progress()
        head.number = number
        let knowledge = try ReplicaKnowledge(db).read()
        // A device that was restored from a backup may have published a longer prefix. All devices keep judging by that one.
        head.stable = [knowledge.stable, knowledge.heads[client]?.stable].compactMap(\.self).max {
            $0.position < $1.position
        }
        head.voids = try log.judgement().list
        return head
    }

    /// The digests of the state: at the end of the stable prefix, where the heads of other clients can be compared, and
    /// of all that is integrated.
    package func digests() throws -> (stable: StateDigest, present: StateDigest) {
        (try log.digest(of: .stable) ?? .empty, try log.digest())
    }

    private func digest(at prefix: StablePrefix) throws -> StateDigest? {
        let position = prefix.position
        let condition = "\(ReplicaLog.Status.isIntegrated) AND \(SetPosition.isUpTo)"
        guard try ReplicaLog.knownSets(db, where: condition, position.values) == prefix.vector else { return nil }
        return try db.first(
            "SELECT sum FROM sets WHERE \(ReplicaLog.Status.isIntegrated) AND \(SetPosition.condition)",
            position.values
        )?.bytes(0).flatMap(StateDigest.init)
    }

    /// The state after the sets of a prefix; `nil` if exactly these sets aren't integrated up to there.
    func fingerprint(at prefix: StablePrefix) throws -> SynchronizedStore.Fingerprint? {
        guard let state = try digest(at: prefix), let schema = try ReplicaFact.layout.read(db) else { return nil }
        let kind = try ReplicaFact.digestsHaveAllRows.read(db) ?? []
        return SynchronizedStore.Fingerprint(state: state.bytes, schema: SetDigest(of: schema + kind).rawValue)
    }

    /// Whether sets wait because they were captured in a newer schema: until the app is updated, this device continues
    /// capturing and doesn't integrate them.
    package func needsNewerSchema() throws -> Bool {
        try db.first("SELECT 1 FROM sets WHERE \(ReplicaLog.Status.isWaiting) AND readable = 0 LIMIT 1") != nil
    }

    // MARK: Void sets

    /// The client that the replica belongs to: this one, or a former one of this device.
    var owner: ClientID? {
        get throws { try ReplicaFact.client.text(db).map { ClientID(rawValue: $0) } }
    }

    /// Makes the replica belong to this client.
    ///
    /// Sets that its former client captured and didn't publish are captured again by this one.
    func adopt() throws {
        try keepStoreSeen()
        try ReplicaFact.client.write(Array(client.rawValue.utf8), db)
        try withdraw(where: "client <> ?", [.text(client.rawValue)])
        try log.integrate()
    }

    /// Whether new sets of this client wouldn't count, because it was removed, or because its last set is void: the device
    /// has to continue as a new client.
    ///
    /// It captures a void set that no other device knows again as the same client.
    package func hasLostIdentity() throws -> Bool {
        let isRemoved = try db.first("SELECT 1 FROM removals WHERE client = ?", [.text(client.rawValue)]) != nil
        guard !isRemoved, let last = try log.lastIrrevocable(by: client) else { return isRemoved }
        return try log.isVoid(SetReference(client, last))
    }

    /// Publishes the edits of this device's void sets again, in new sets that have seen all that is integrated.
    ///
    /// What they overwrite is found by its value and logged. If other devices may know any of them, the device has to be a new
    /// client by then. New rows keep their names, which no copy of this device has given to others: another device may restore
    /// them from its conflict log, before or after that.
    ///
    /// - Parameter time: The present, in milliseconds since 1970.
    /// - Returns: The new sets, which are integrated.
    /// - Throws: `DatabaseError`, ``MissingSets`` and ``StoreChangesError``.
    package func captureVoidSetsAgain(at time: UInt64) throws -> [OwnSet] {
        guard try !hasLostIdentity() else { return [] }
        var sets: [OwnSet] = []
        try withdraw(where: ReplicaLog.Status.isVoid)
        let voids = try log.entries(.void, where: ReplicaLog.Origin.isNotCapturedAgain).map(\.reference)
        guard !voids.isEmpty else { return [] }
        // The new sets aren't added to these: they are this device's part of the same update.
        var migrations = MigrationSets(try log.entries(.integrated))
        for reference in voids {
            let seen = try log.integrated()
            if let void = try log.set(reference) {
                let author = try log.versions.author(of: void.header)
                let changes = try RepeatedChanges(state, author).changes(
                    of: void,
                    besides: migrations.unseen(by: void.header) { try log.set($0) }
                )
                let header = try nextHeader(seen: seen, at: time, isMigration: void.header.isMigration)
                if !capturesVoidSets { try log.judgement().refuseMissingSets(header) }
                if !changes.isEmpty { sets += try add(SyncChangeSet(header, changes)) }
            }
            try log.noteCapturedAgain(reference)
        }
        return sets
    }
}
