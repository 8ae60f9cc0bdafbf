/// The change sets that arrived, and the order in which they are folded.
struct ReplicaLog {
    /// What the log knows of a set.
    enum Status: Int64 {
        /// The set isn't ready yet.
        case waiting = 0
        case integrated = 1
        case void = 2
        /// The set is integrated and can't be undone any more.
        case stable = 3
    }

    /// Where a set comes from.
    enum Origin: Int64 {
        case otherDevice = 0
        /// The set was captured here, and no other device knows it.
        case captured = 1
        /// The set was captured here, and may be on the storage.
        case published = 2
        /// The set was captured here and is void, and its edits are in a later set.
        case capturedAgain = 3
        /// The set was captured here, no other device knows it, and this device has taken it back.
        case withdrawn = 4
    }

    let state: ReplicaState
    let versions: ReplicaVersions
    let digestKey: StateDigest.Key
    private let client: ClientID
    var db: SQLConnection { state.db }
    /// What undoing integrated sets puts back.
    let undo: ReplicaUndo

    init(_ state: ReplicaState, _ versions: ReplicaVersions, _ digestKey: StateDigest.Key, _ client: ClientID) {
        self.state = state
        self.client = client
        undo = ReplicaUndo(state)
        self.versions = versions
        self.digestKey = digestKey
    }

    /// Adds a set; of a set that is known already, only its origin is noted: it may have been captured here, too.
    func insert(_ set: any ChangeSetSource, _ origin: Origin) throws -> SetReference {
        let bytes = try set.encoded
        let reference = SetReference(set.header.id, SetDigest(of: bytes))
        var header = set.header
        // The schema is remembered with its version, and the log's headers are read in every synchronization.
        header.schemaDescription = nil
        if try versions.remember(set.header) { try ReplicaFact.unread.set(db) }
        try db.execute(
            """
            INSERT INTO sets (client, sequence, digest, stamp, status, origin, readable, header, bytes)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (client, sequence, digest)
            DO UPDATE SET
                origin = CASE
                    WHEN min(origin, excluded.origin) = \(Origin.otherDevice.rawValue)
                        AND max(origin, excluded.origin) IN (\(Origin.captured.rawValue), \(Origin.withdrawn.rawValue))
                    THEN \(Origin.published.rawValue) ELSE max(origin, excluded.origin) END,
                bytes = ifnull(bytes, excluded.bytes)
            """,
            reference.values + [
                .integer(Int64(set.header.stamp.rawValue)), .integer(Status.waiting.rawValue),
                .integer(origin.rawValue), .integer(try versions.canRead(set, in: state.schema) ? 1 : 0),
                .blob(header.encoded), .blob(consume bytes),
            ]
        )
        try markUnjudged()
        return reference
    }

    /// Lets the next integration judge the sets: something has changed by which it does.
    func markUnjudged() throws { try ReplicaFact.unjudged.set(db) }

    /// Judges again which waiting sets the store can read, because a schema or its number is new.
    func readAgain() throws {
        try ReplicaFact.unread.write(nil, db)
        for entry in try entries(.waiting, where: "readable = 0") {
            guard let set = try bytes(of: entry.reference).map({ try EncodedChangeSet(decoding: $0) }),
                try versions.canRead(set, in: state.schema)
            else { continue }
            try db.execute("UPDATE sets SET readable = 1 WHERE \(SetReference.condition)", entry.reference.values)
            try markUnjudged()
        }
    }

    /// Numbers the store's schema again if its update isn't captured yet, and judges by that which sets the store can read.
    func numberAgain() throws {
        guard try versions.numberAgain() else { return }
        try db.execute("UPDATE sets SET readable = 0 WHERE \(Status.isWaiting) AND bytes IS NOT NULL")
        try readAgain()
    }

    // MARK: Reading

    /// The sets of some statuses, in the total order.
    func entries(_ statuses: Status..., where condition: String = "1") throws -> [LogEntry] {
        let list = statuses.map { "\($0.rawValue)" }.joined(separator: ", ")
        return try db.all(
            """
            SELECT \(Self.entryColumns) FROM sets
            WHERE status IN (\(list)) AND \(condition) ORDER BY stamp, client, sequence
            """
        ).map(entry)
    }

    /// Calls `body` with the integrated sets, the last one in the total order first, until it returns `false`.
    func forEachIntegratedBackwards(_ body: (LogEntry) throws -> Bool) throws {
        let sets = try db.prepareApart(
            """
            SELECT \(Self.entryColumns) FROM sets
            WHERE status = \(Status.integrated.rawValue) ORDER BY stamp DESC, client DESC, sequence DESC
            """
        )
        while try sets.step(), try body(entry(sets.row)) {}
    }

    private static let entryColumns = "header, digest, \(Origin.isWithdrawn)"

    private func entry(_ values: [StoredValue]) throws -> LogEntry {
        var entry = LogEntry(try SyncChangeSet.Header(decoding: values.bytes(0) ?? []), try values.digest(1))
        entry.isWithdrawn = values.integer(2) == 1
        return entry
    }

    /// The last set of each client that is integrated.
    func integrated() throws -> [ClientID: SeenSet] { try Self.knownSets(db, where: Status.isIntegrated) }

    /// The last set of a client that is integrated, wherever it was captured.
    func lastIntegrated(of client: ClientID) throws -> SeenSet? {
        try last(of: client, where: Status.isIntegrated)
    }

    /// The last set of a client that may count, whether it's integrated or waits for others.
    func lastArrived(of client: ClientID) throws -> SeenSet? {
        try last(of: client, where: Status.isNotVoid)
    }

    /// The last set that a client captured here, void ones included.
    func lastCaptured(by client: ClientID) throws -> SeenSet? {
        try last(of: client, where: "NOT \(Origin.isForeign)")
    }

    /// The last set that a client captured here and can't capture again under its number, void ones included: other devices may
    /// know this set, or another one of its number.
    func lastIrrevocable(by client: ClientID) throws -> SeenSet? {
        try last(of: client, where: Origin.isIrrevocable)
    }

    private func last(of client: ClientID, where condition: String) throws -> SeenSet? {
        try db.first(
            "SELECT sequence, digest FROM sets WHERE client = ? AND \(condition) ORDER BY sequence DESC LIMIT 1",
            [.text(client.rawValue)]
        )?.seenSet(0)
    }

    /// A set with its changes; `nil` if its bytes are gone.
    func set(_ reference: SetReference) throws -> SyncChangeSet? {
        try bytes(of: reference).map { try SyncChangeSet(decoding: $0) }
    }

    /// A set's bytes; `nil` if they are gone.
    func bytes(of reference: SetReference) throws -> [UInt8]? {
        try db.first("SELECT bytes FROM sets WHERE \(SetReference.condition)", reference.values)?.bytes(0)
    }

    /// A set's header; `nil` of a stable set that isn't its client's last one.
    func header(_ reference: SetReference) throws -> SyncChangeSet.Header? {
        try db.first("SELECT header FROM sets WHERE \(SetReference.condition)", reference.values)?.bytes(0)
            .flatMap { try $0.isEmpty ? nil : SyncChangeSet.Header(decoding: $0) }
    }

    /// Forgets the headers of stable sets that aren't their clients' last ones: nothing reads them.
    ///
    /// - Parameters:
    ///   - stable: The last stable set of each client.
    ///   - former: The sets that were it before.
    /// - Throws: `DatabaseError`.
    func forgetHeaders(before stable: [ClientID: SeenSet], since former: [ClientID: SeenSet]) throws {
        for (client, last) in stable {
            let first = former[client]?.sequence ?? 0
            try db.execute(
                "UPDATE sets SET header = x'' WHERE client = ? AND sequence >= ? AND sequence < ? AND \(Status.isStable)",
                [.text(client.rawValue), .integer(Int64(clamping: first)), .integer(Int64(clamping: last.sequence))]
            )
        }
    }

    /// Notes that the sets that this device captured as a client may be on the storage from now on.
    func notePublication(of client: ClientID, upTo sequence: UInt64) throws {
        try db.execute(
            """
            UPDATE sets SET origin = \(Origin.published.rawValue)
            WHERE client = ? AND sequence <= ? AND \(Origin.isCaptured) AND \(Status.isIntegrated)
            """,
            SetID(client, sequence).values
        )
    }

    // MARK: Integrating

    /// Judges the known sets that can still be undone.
    func judgement() throws -> SetJudgement {
        SetJudgement(try entries(.waiting, .integrated, .void), try ReplicaKnowledge(db).read())
    }

    /// Folds the sets that are ready, and undoes sets that turned out to be void.
    ///
    /// The state afterwards is the fold of these sets in the total order, whatever was integrated before. Reading all sets
    /// that can be undone takes long if one client hasn't seen them for months, so nothing is read unless something changed.
    ///
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func integrate() throws {
        guard try ReplicaFact.unjudged.isSet(db) else { return }
        // Once for all sets that have arrived: each may have brought another schema.
        if try ReplicaFact.unread.isSet(db) { try readAgain() }
        try ReplicaFact.unjudged.write(nil, db)
        let judgement = try judgement()
        let unreadable = try entries(.waiting, .integrated, where: "readable = 0").map(\.reference)
        let ready = judgement.ready(except: Set(unreadable))
        try prepareConstraints(for: ready)
        let integrated = try entries(.integrated)
        let common = zip(ready, integrated).prefix { $0 == $1 }.count
        for entry in integrated[common...].reversed() { try undo(entry, judgement.knowledge.stable) }
        // A set that is folded again keeps the entries that it has again, and their numbers.
        let foldedAgain = Set(ready[common...].map(\.id))
        for entry in integrated[common...] where !foldedAgain.contains(entry.id) {
            try setConflicts([], of: entry.header)
        }
        try db.execute("UPDATE sets SET status = \(Status.waiting.rawValue) WHERE \(Status.isVoid)")
        for void in judgement.void { try setStatus(.void, of: void) }
        guard common < ready.count else { return }
        var progress = FoldProgress(
            digest: try digest(),
            conflicts: FoldedConflicts(self),
            migrations: MigrationSets(ready[..<common]),
            greatestSchema: try GreatestSchema(stable: db)
        )
        for entry in ready[..<common] { progress.greatestSchema.add(entry.header.schema) }
        for entry in ready[common...] {
            try Task.checkCancellation()
            try fold(entry, judgement, &progress)
            if progress.conflicts.isFull { try progress.conflicts.write() }
        }
        try progress.conflicts.write()
    }

    /// What folding sets one after the other carries along.
    private struct FoldProgress {
        /// The digest of the state.
        var digest: StateDigest
        var conflicts: FoldedConflicts
        var migrations: MigrationSets
        var greatestSchema: GreatestSchema
    }

    func setStatus(_ status: Status, of reference: SetReference) throws {
        try db.execute(
            "UPDATE sets SET status = \(status.rawValue) WHERE \(SetReference.condition)",
            reference.values
        )
    }

    // MARK: Folding and undoing

    private func fold(_ entry: LogEntry, _ judgement: SetJudgement, _ progress: inout FoldProgress) throws {
        guard let folded = try result(of: entry, judgement, &progress) else { return }
        // First, because it reads the state before the set.
        try progress.conflicts.add(folded.conflicts, of: entry, folded.delta)
        try write(folded.delta)
        try undo.record(folded.delta, of: entry.reference)
        let numbers = ReplicaNumbers(state)
        for (row, wish) in folded.wishes { try numbers.setWish(wish, of: row) }
        progress.digest.apply(folded.delta, state.schema, digestKey)
        try db.execute(
            "UPDATE sets SET status = \(Status.integrated.rawValue), sum = ? WHERE \(SetReference.condition)",
            [.blob(progress.digest.bytes)] + entry.reference.values
        )
        progress.migrations.add(entry)
    }

    /// What folding a set results in.
    private struct FoldedSet {
        var delta: StateDelta
        var conflicts: [Conflict]
        /// The numbers that inserted rows should have.
        var wishes: [(RowReference, Int64)]
    }

    /// Folds a set without writing anything but the counter of names; `nil` if its bytes are gone.
    ///
    /// The set itself isn't in memory any more when the result is written.
    private func result(
        of entry: LogEntry,
        _ judgement: SetJudgement,
        _ progress: inout FoldProgress
    ) throws -> FoldedSet? {
        guard var set = try set(entry.reference) else { return nil }
        set.header = judgement.effective(set.header)
        var schemas = FoldedSchemas()
        schemas.author = try versions.author(of: set.header)
        schemas.unseen =
            schemas.author == nil ? [] : try progress.migrations.schemas(unseenBy: set.header, versions)
        schemas.migrations = try progress.migrations.unseen(by: set.header) { try self.set($0) }
        schemas.greatestBefore = progress.greatestSchema.version?.digest
        progress.greatestSchema.add(set.header.schema)
        schemas.greatest = progress.greatestSchema.version?.digest
        let (delta, conflicts) = try Fold(state.schema).apply(set, to: state, schemas: schemas)
        // A set of another client has names of this one if it's a void set of this device's copy that was captured again.
        try ReplicaNumbers(state).skipNames(in: set, of: client)
        let wishes = set.changes.compactMap { change -> (RowReference, Int64)? in
            guard case .insert(let row) = change.edit, let wish = row.wish else { return nil }
            return (change.reference, wish)
        }
        return FoldedSet(delta: delta, conflicts: conflicts, wishes: wishes)
    }

    private func undo(_ entry: LogEntry, _ stable: StablePrefix?) throws {
        try undo.forEachPart(of: entry.reference) { part in
            var former = part
            if let stable { former.trim(stable) }
            try write(former)
        }
        try undo.remove(entry.reference)
        try db.execute(
            "UPDATE sets SET status = \(Status.waiting.rawValue), sum = NULL WHERE \(SetReference.condition)",
            entry.reference.values
        )
    }

    /// Writes what a set changed into the state, and keeps what the store has of the rows.
    private func write(_ delta: StateDelta) throws {
        for (row, pair) in delta.rows { try state.replace(row, pair.before, by: pair.after) }
        for (row, pair) in delta.counts { try write(row, pair.after) }
        for (row, pair) in delta.tombs { try state.write(row, tomb: pair.after) }
        for (key, pair) in delta.aliases { try state.write(key, pair.after) }
    }

    /// Puts items back into the state, and keeps what the store has of their rows.
    ///
    /// The schema may have changed since the set was integrated that is undone.
    private func write(_ items: FormerItems) throws {
        for (row, item) in items.rows where state.schema.has(row) {
            try item.map { try $0.table.check($0.image) }
            try state.replace(row, try state.row(row), by: item)
        }
        for (row, count) in items.counts where state.schema.has(row) { try write(row, count) }
        for (row, tomb) in items.tombs where state.schema.has(row) {
            try tomb.map { try $0.row.table.check($0.row.image) }
            try state.write(row, tomb: tomb)
        }
        for (key, alias) in items.aliases where state.schema.tables[key.table] != nil { try state.write(key, alias) }
    }

    private func write(_ row: RowReference, _ count: Int?) throws {
        let pending = ReplicaPending(state)
        try pending.keepCount(row)
        try state.write(row, count: count)
        try pending.settleCount(row)
    }
}

extension SetID {
    /// The values by which the sets of a number are found: client and sequence.
    var values: [StoredValue] { [.text(client.rawValue), .integer(Int64(clamping: sequence))] }
}

extension SetReference {
    /// The condition that only a set with its ``values`` fulfils.
    static let condition = "client = ? AND sequence = ? AND digest = ?"

    /// The values by which the set is found: client, sequence and digest.
    var values: [StoredValue] { id.values + [.blob(digest.rawValue)] }
}

extension SetPosition {
    /// The condition that only sets with these ``values`` fulfil.
    static let condition = "stamp = ? AND client = ? AND sequence = ?"
    /// The condition that only sets up to the position with these ``values`` fulfil.
    static let isUpTo = "(stamp, client, sequence) <= (?, ?, ?)"

    /// The values by which sets are ordered: stamp, client and sequence.
    var values: [StoredValue] { [.integer(Int64(stamp.rawValue))] + id.values }
}
