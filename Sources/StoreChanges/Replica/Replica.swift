package import GRDB

/// What this device knows of a document: the state that merging gives, and how far the store is from it.
package final class Replica {
    private let db: SQLConnection
    private let state: ReplicaState
    private let log: ReplicaLog
    private let client: ClientID

    /// Opens a replica, or creates one in an empty database.
    ///
    /// - Parameters:
    ///   - db: The replica's database, which lives longer than this object; every call needs a transaction.
    ///   - schema: The store's schema.
    ///   - client: This device.
    /// - Throws: `DatabaseError`.
    package init(_ db: Database, _ schema: FoldSchema, client: ClientID) throws {
        self.db = SQLConnection(db)
        self.client = client
        if try !db.tableExists("facts") { try ReplicaSchema.create(self.db) }
        state = try ReplicaState(self.db, schema)
        log = ReplicaLog(state)
    }

    /// Captures what the user changed in the store, as a set of this device, and integrates it.
    ///
    /// - Parameters:
    ///   - store: The store, in a read transaction.
    ///   - time: When the store was last written, in milliseconds since 1970.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    /// - Returns: The set; `nil` if nothing changed.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    package func capture(_ store: Database, at time: UInt64, allowsDeletions: Bool = false) throws -> SyncChangeSet? {
        let seen = try storeSeen()
        var capture = Capture(of: SQLConnection(store), state, by: client)
        let changes = try capture.run(allowsDeletions: allowsDeletions)
        guard !changes.isEmpty else { return nil }
        let last = try log.integrated()[client]
        let stamp = max(try ReplicaFact.clock.readNumber(db) + 1, time)
        let header = SyncChangeSet.Header(
            id: SetID(client, (last?.sequence ?? 0) + 1),
            predecessor: last?.digest ?? .none,
            stamp: Stamp(rawValue: stamp),
            seen: seen.filter { $0.key != client },
            schema: SchemaVersion(0, .none)
        )
        let set = SyncChangeSet(header, changes)
        try integrate([set])
        return set
    }

    /// Integrates sets of any clients, in any order; sets that aren't ready wait.
    package func integrate(_ sets: [SyncChangeSet]) throws {
        for set in sets {
            try ReplicaFact.clock.writeNumber(max(try ReplicaFact.clock.readNumber(db), set.header.stamp.rawValue), db)
            try log.insert(set)
        }
        try log.integrate()
    }

    /// Writes into the store what merging changed.
    ///
    /// - Parameter store: The store, in a write transaction, with foreign keys off and nothing captured outstanding.
    /// - Returns: How many rows changed, by table.
    /// - Throws: `DatabaseError`.
    package func write(to store: Database) throws -> [String: ChangeCounts] {
        let counts = try StoreWriter(to: SQLConnection(store), state).write()
        try setStoreSeen(try log.integrated())
        return counts
    }

    // MARK: What the store has seen

    /// The sets whose effect is in the store: all that are integrated, if nothing is pending.
    private func storeSeen() throws -> [ClientID: SeenSet] {
        if try ReplicaPending(state).isEmpty { return try log.integrated() }
        guard let bytes = try ReplicaFact.seen.read(db) else { return [:] }
        var parser = ByteParser(bytes)
        var seen: [ClientID: SeenSet] = [:]
        for _ in 0..<(try parser.count("the number of clients", atMost: .max)) {
            let set = try parser.set()
            seen[set.client] = SeenSet(set.sequence, try parser.digest("a digest"))
        }
        return seen
    }

    private func setStoreSeen(_ seen: [ClientID: SeenSet]) throws {
        var writer = ByteWriter()
        writer.count(seen.count)
        for (client, seen) in seen.sorted(by: { $0.key < $1.key }) {
            writer.set(SetID(client, seen.sequence))
            writer.raw(seen.digest.rawValue)
        }
        try ReplicaFact.seen.write(writer.bytes, db)
    }

    // MARK: Inspecting

    /// All of the state, for tests and small documents.
    package func content() throws -> StateContent { try state.content() }

    /// Everything that merging overwrote or left out, the oldest first.
    package func conflicts() throws -> [Conflict] {
        try db.all("SELECT rule, tbl, name, lost, kept, client, sequence FROM conflicts ORDER BY number").compactMap {
            guard let rule = $0.text(0).flatMap(Conflict.Rule.init), let client = $0.text(5),
                let sequence = $0.integer(6)
            else { return nil }
            return Conflict(
                rule,
                RowReference(state.tableName($0.integer(1)), try RowName(decoding: $0.bytes(2) ?? [])),
                lost: try [String: Cell](decoding: $0.bytes(3) ?? []),
                kept: try [String: Cell](decoding: $0.bytes(4) ?? []),
                by: SetID(ClientID(rawValue: client), UInt64(sequence))
            )
        }
    }
}
