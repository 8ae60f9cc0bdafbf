import DatabaseSupport
package import GRDB

/// What this device knows of a document: the state that merging gives, and how far the store is from it.
package final class Replica {
    let db: SQLConnection
    let state: ReplicaState
    let log: ReplicaLog
    let client: ClientID
    let origin: String
    /// Whether edits are captured although their set can't count: so while the replica is rebuilt, after which a new client
    /// captures them again.
    var capturesVoidSets = false
    /// How large a captured set is at most, unless constraints need more of its changes in one set.
    var limits = CapturedChanges.Limits()

    /// Opens a replica, or creates one in an empty database.
    ///
    /// - Parameters:
    ///   - db: The replica's database, which lives longer than this object; every call needs a transaction.
    ///   - schema: The store's schema.
    ///   - identity: What the replica belongs to. The document's name is the key of the state's digests.
    ///   - takesOlderSchema: Whether the store may have an older schema than the replica.
    /// - Throws: `DatabaseError`; ``StoreChangesError`` with `newerSchema`, `unsuitableTable` or `invalidRules`.
    package init(
        _ db: Database,
        _ schema: StoreSchema,
        _ identity: SynchronizedStore.Identity,
        takesOlderSchema: Bool = false
    ) throws {
        self.db = SQLConnection(db)
        client = identity.client
        origin = identity.origin
        if try !Self.exists(in: self.db) { try ReplicaSchema.create(self.db) }
        try RenamingCheck(identity.rules, in: schema).remember(in: self.db)
        let versions = ReplicaVersions(self.db, SchemaDescription(schema))
        state = try ReplicaState(
            self.db,
            FoldSchema(schema, earlier: versions.earlierSchemas(), evaluator: ScratchEvaluator(schema))
        )
        log = ReplicaLog(state, versions, StateDigest.Key(identity.document), client)
        try ReplicaMigration(log).run(to: schema, takesOlder: takesOlderSchema)
    }

    /// Whether a database has a replica.
    static func exists(in db: SQLConnection) throws -> Bool {
        try db.first("SELECT 1 FROM sqlite_schema WHERE name = 'facts'") != nil
    }

    /// Takes a store as the document's first baseline, or as an equal copy of it: its rows aren't edits of this device.
    ///
    /// - Parameter store: The store, in a read transaction.
    /// - Throws: `DatabaseError`; ``StoreChangesError`` with `storeReplaced` if the replica has a store already.
    package func begin(with store: Database) throws {
        guard try db.first("SELECT 1 FROM rows UNION ALL SELECT 1 FROM counts UNION ALL SELECT 1 FROM sets") == nil
        else {
            throw StoreChangesError(
                .storeReplaced,
                "This device has synchronized the document already. Remove its replica to start over from a whole store."
            )
        }
        let connection = SQLConnection(store)
        try Baseline(of: connection, state, RowNames(in: connection, state, by: .origin)).insert()
        let memory = PageMemory(state)
        try memory.write(try memory.read(store))
        var schema = try GreatestSchema(stable: db)
        schema.add(try log.versions.version())
        try schema.write(db)
    }

    /// Captures what the user changed in the store, as sets of this device, and integrates them.
    ///
    /// - Parameters:
    ///   - store: The store, in a transaction; it isn't written.
    ///   - time: When the store was last written, in milliseconds since 1970.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    ///   - pages: The store's pages in the same transaction; `nil` if all rows are to be compared.
    ///   - writtenAgain: A row that the user has just restored.
    /// - Returns: The sets; none if nothing changed.
    /// - Throws: `DatabaseError`; ``MissingSets``; ``StoreChangesError``.
    func capture(
        _ store: Database,
        at time: UInt64,
        allowsDeletions: Bool = false,
        since pages: RememberedPages?,
        writtenAgain: RowWrittenAgain? = nil
    ) throws -> [OwnSet] {
        let seen = try storeSeen()
        let isMigration = try endsMigration()
        let captured = CapturedChanges(state, isMigration: isMigration, limits)
        var capture = try Capture(
            of: SQLConnection(store),
            state,
            by: client,
            into: captured,
            writtenAgain: writtenAgain
        )
        var changes = try capture.run(at: time, allowsDeletions: allowsDeletions, since: pages)
        try PageMemory(state).write(pages)
        guard try !changes.isEmpty || announcesSchema(isMigration) else { return [] }
        var header = try nextHeader(seen: seen, at: time, isMigration: isMigration)
        let judgement = try log.judgement()
        guard judgement.isLate(header) else { return try add(header, changes) }
        // The store was edited before its first synchronization, and other devices needn't know any more what the edits
        // overwrite. So they are captured as if they had been made just now: what they overwrite is found by its value.
        // Their references are compared with the keys of them all, so this path has all changes in memory, however many.
        let author = try log.versions.author(of: header)
        var migrations = MigrationSets(try log.entries(.integrated))
        let late = try RepeatedChanges(state, author).changes(
            of: SyncChangeSet(header, changes.all()),
            besides: migrations.unseen(by: header) { try log.set($0) }
        )
        header.seen = try log.integrated().filter { $0.key != client }
        if !capturesVoidSets { try judgement.refuseMissingSets(header) }
        var repeated = CapturedChanges(state, isMigration: isMigration, limits)
        for change in late { try repeated.append(repeated: change) }
        return try add(header, repeated)
    }

    /// Whether a set without a change has to tell the store's schema.
    ///
    /// Which edits are folded by the former constraints depends on the first set that tells the new ones. Besides, another
    /// device that skipped versions learns from it that sets in these are older than its app.
    ///
    /// - Parameter isMigration: Whether the schema has changed since the last capture.
    /// - Returns: Whether it has.
    /// - Throws: `DatabaseError`.
    func announcesSchema(_ isMigration: Bool) throws -> Bool {
        try (isMigration || !state.schema.earlier.isEmpty) && log.hasNewSchema()
    }

    /// Reads the pages of a store, and finds what may have changed since the last capture.
    ///
    /// - Parameter store: The store, in a transaction.
    /// - Returns: The pages; `nil` in a transaction that writes, or if part of the store isn't in its file, but in a log.
    /// - Throws: `DatabaseError`.
    package func pages(of store: Database) throws -> RememberedPages? { try PageMemory(state).read(store) }

    /// Whether the schema has changed since the last capture; the next one asks again.
    func endsMigration() throws -> Bool {
        let isMigration = try ReplicaFact.migrated.isSet(db)
        try ReplicaFact.migrated.write(nil, db)
        try ReplicaFact.updatedFrom.write(nil, db)
        return isMigration
    }

    /// Integrates sets of any clients, in any order; sets that aren't ready wait.
    package func integrate(_ sets: [any ChangeSetSource]) throws { try integrate(sets, from: .otherDevice) }

    @discardableResult
    func integrate(_ sets: [any ChangeSetSource], from origin: ReplicaLog.Origin) throws -> [SetReference] {
        let references = try sets.map { try insert($0, origin) }
        try integrateInserted()
        return references
    }

    /// Integrates the sets that were inserted, as far as they are ready.
    func integrateInserted() throws {
        try keepStoreSeen()
        try log.numberAgain()
        for (client, first) in try log.contradictedSets() {
            try withdraw(where: "client = ? AND sequence >= ?", [client, first])
        }
        try log.integrate()
    }

    /// Adds a set to the log; the next integration folds it.
    func insert(_ set: any ChangeSetSource, _ origin: ReplicaLog.Origin) throws -> SetReference {
        try advanceClock(to: set.header.stamp)
        // What the store refused may have changed.
        try ReplicaRefusals(state).removeAll()
        if set.header.id.client == client { try ReplicaNumbers(state).skipNames(in: set.decoded(), of: client) }
        return try log.insert(set, origin)
    }

    /// Takes sets back that no other device knows, so that their edits are captured again.
    ///
    /// So no set is lost that this device had published under one of these numbers before it was restored from a backup.
    func withdraw(where condition: String, _ values: [StoredValue] = []) throws {
        guard try log.withdraw(where: condition, values), let seen = try storedSeen() else { return }
        // No head or later set may name them: other devices would wait for them.
        try setStoreSeen(try log.withoutWithdrawn(seen))
    }

    func advanceClock(to stamp: Stamp) throws {
        try ReplicaFact.clock.writeNumber(max(try ReplicaFact.clock.readNumber(db), stamp.rawValue), db)
    }

    // MARK: Idle

    /// Whether the store is as it was captured or written last, to judge by the status of its files.
    func hasCaptured(_ status: StoreStatus) throws -> Bool {
        try ReplicaFact.status.read(db) == status.bytes
    }

    /// Remembers the status that the store's files had before it was captured, or after it was written; `nil` if a later
    /// write might not show.
    func remember(_ status: StoreStatus?) throws { try ReplicaFact.status.write(status?.bytes, db) }

    /// Whether a write would change anything in a store that was captured just now.
    func needsWrite() throws -> Bool {
        try ReplicaFact.token.read(db) == nil || ReplicaFact.tokenIsOld.isSet(db)
            || ReplicaPending(state).isWritable
    }

    // MARK: Writing

    /// Chooses everything that the next write puts into the store, and its new token.
    ///
    /// - Parameters:
    ///   - store: The store, in a transaction; it isn't written.
    ///   - retriesRefused: Whether rows are among it that the store has refused.
    /// - Throws: `DatabaseError`.
    package func prepare(_ store: Database, retriesRefused: Bool = true) throws {
        if retriesRefused { try ReplicaRefusals(state).removeAll() }
        try StoreWriter(to: SQLConnection(store), state).assignNumbers()
        try ReplicaFact.preparedToken.write(StoreToken.random().bytes, db)
    }

    /// Whether what was prepared can be written although the store was written since it was captured.
    ///
    /// - Parameter store: The store, in a write transaction.
    /// - Returns: Whether every row that is to be written is as it was captured.
    /// - Throws: `DatabaseError`.
    package func canWrite(to store: Database) throws -> Bool {
        try StoreWriter(to: SQLConnection(store), state).canWrite()
    }

    /// Writes into the store what was prepared, and changes nothing in the replica.
    ///
    /// - Parameter store: The store, in a write transaction, with foreign keys off.
    /// - Returns: What was written.
    /// - Throws: `DatabaseError`; ``RefusedRows``, which ``refuse(_:)`` lets wait.
    package func write(to store: Database) throws -> WrittenChanges {
        let connection = SQLConnection(store, isObserved: true)
        let written = try StoreWriter(to: connection, state).write()
        if let token = try ReplicaFact.preparedToken.read(db) {
            try StoreToken(bytes: token).write(connection, origin: origin)
        }
        return written
    }

    /// Lets the rows wait that the store refuses: the next write tries the others.
    func refuse(_ rows: RefusedRows) throws { try ReplicaRefusals(state).insert(rows) }

    /// The rows that the store refuses.
    func refusals() throws -> [RefusalSummary] { try ReplicaRefusals(state).summaries() }

    /// Records that the store has what was prepared.
    package func finish() throws {
        try PageMemory(state).forgetPending()
        try StoreWriter(to: db, state).finish()
        // Otherwise an edit that refers to a row which is still there would seem to know that it was deleted.
        if try !ReplicaRefusals(state).keepDeletedRows { try setStoreSeen(try log.integrated()) }
        try ReplicaFact.token.write(try ReplicaFact.preparedToken.read(db), db)
        try ReplicaFact.preparedToken.write(nil, db)
        try ReplicaFact.tokenIsOld.write(nil, db)
    }

    /// Records that the store has what was prepared, if a synchronization died after it had written that.
    ///
    /// - Parameter store: The store, in a transaction; it isn't written.
    /// - Returns: Whether it had.
    /// - Throws: `DatabaseError`.
    @discardableResult
    func finishWritten(_ store: Database) throws -> Bool {
        guard let prepared = try ReplicaFact.preparedToken.read(db),
            try prepared == token(of: store)
        else { return false }
        try finish()
        return true
    }

    /// Finds out, by the store's token, what a synchronization that died had done; and that the store is the replica's.
    ///
    /// - Parameters:
    ///   - store: The store, in a transaction; it isn't written.
    ///   - acceptsOther: Whether the store may be another one.
    /// - Returns: Whether the store is the replica's.
    /// - Throws: ``StoreChangesError`` with `storeReplaced`.
    package func recover(_ store: Database, acceptsOther: Bool = false) throws -> Bool {
        if try finishWritten(store) { return true }
        let token = try token(of: store)
        let isOwn = try token == ReplicaFact.token.read(db)
        guard isOwn || acceptsOther else {
            throw StoreChangesError(
                .storeReplaced,
                """
                This device remembers that it synchronized another store last: the store, or the device's \
                memory, is a copy or a restored backup, or this is another store. Put back what belongs together, or say \
                what counts: --take local for the edits of this store, --take remote for the document, --take both for \
                the rows of both.
                """
            )
        }
        try ReplicaFact.preparedToken.write(nil, db)
        return isOwn && token != nil
    }

    /// Whether a store, in a transaction, has the token that the replica wrote last, or has prepared.
    func isOwnStore(_ store: Database) throws -> Bool { try Self.isOwn(token(of: store), in: db) }

    /// Whether a store with a token, or without one, is the store of a replica.
    static func isOwn(_ token: [UInt8]?, in db: SQLConnection) throws -> Bool {
        if try token == ReplicaFact.token.read(db) { return true }
        return try token != nil && token == ReplicaFact.preparedToken.read(db)
    }

    private func token(of store: Database) throws -> [UInt8]? {
        try StoreToken.read(SQLConnection(store), origin: origin)?.bytes
    }

    // MARK: What the store has seen

    /// The sets whose effect is in the store: all that are integrated, if nothing is pending.
    func storeSeen() throws -> [ClientID: SeenSet] {
        if try ReplicaPending(state).isEmpty { return try log.integrated() }
        return try storedSeen() ?? [:]
    }

    private func storedSeen() throws -> [ClientID: SeenSet]? {
        try ReplicaFact.seen.read(db).map { try [ClientID: SeenSet](decoding: $0) }
    }

    /// Records what the store has seen, before it may lack anything.
    ///
    /// A head may have said that, and then it holds for all later sets of this device.
    func keepStoreSeen() throws {
        if try ReplicaPending(state).isEmpty { try setStoreSeen(try log.integrated()) }
    }

    private func setStoreSeen(_ seen: [ClientID: SeenSet]) throws {
        let encoded = seen.encoded
        guard try ReplicaFact.seen.read(db) != encoded else { return }
        try ReplicaFact.seen.write(encoded, db)
    }

    // MARK: Inspecting

    /// All of the state, for tests and small documents.
    package func content() throws -> StateContent { try state.content() }
}
