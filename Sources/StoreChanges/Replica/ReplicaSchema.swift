import ByteCoding

/// The tables of a replica's database.
enum ReplicaSchema {
    static func create(_ db: SQLConnection) throws {
        for statement in statements.split(separator: ";\n") { try db.execute(String(statement)) }
    }

    /// Calls `body` while rows and their numbers have no indexes, which are faster to make for all rows at once.
    static func withoutIndexes(_ db: SQLConnection, _ body: () throws -> Void) throws {
        let indexes = ["rows_by_name", "numbers_by_number"]
        let statements = try indexes.compactMap { index in
            try db.first("SELECT sql FROM sqlite_schema WHERE name = ?", [.text(index)])?.text(0)
        }
        for index in indexes { try db.execute("DROP INDEX \(index)") }
        try body()
        for statement in statements { try db.execute(statement) }
    }

    private static let statements = """
        -- What is known of the replica itself, by name.
        CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

        CREATE TABLE tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

        -- The state: rows, deleted rows, former values, and how often rows without a key occur.
        -- The identifiers of a table's rows follow each other, in the order in which the rows came: mostly the store's.
        -- number is the row's integer key in this device's store, as the table of numbers has it.
        CREATE TABLE rows (
            id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, name BLOB NOT NULL, number INTEGER, image BLOB NOT NULL,
            inserters BLOB NOT NULL
        );
        CREATE UNIQUE INDEX rows_by_name ON rows (tbl, name);
        CREATE TABLE tombs (
            tbl INTEGER, name BLOB, image BLOB NOT NULL, inserters BLOB NOT NULL, deleters BLOB NOT NULL,
            PRIMARY KEY (tbl, name)
        ) WITHOUT ROWID;
        CREATE TABLE aliases (
            tbl INTEGER, key BLOB, value BLOB NOT NULL, name BLOB NOT NULL, maker BLOB NOT NULL, PRIMARY KEY (tbl, key)
        ) WITHOUT ROWID;
        CREATE INDEX aliases_by_value ON aliases (tbl, value);
        CREATE INDEX aliases_by_name ON aliases (tbl, name);
        -- The name of a row without a key has all of its cells; so an index has eight bytes of its digest instead.
        CREATE TABLE counts (
            id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, digest INTEGER NOT NULL, name BLOB NOT NULL,
            count INTEGER NOT NULL
        );
        CREATE INDEX counts_by_digest ON counts (tbl, digest);

        -- By which values rows and deleted rows are found.
        CREATE TABLE lookups (tbl INTEGER, key BLOB, name BLOB, PRIMARY KEY (tbl, key, name)) WITHOUT ROWID;
        CREATE TABLE tomb_lookups (tbl INTEGER, key BLOB, name BLOB, PRIMARY KEY (tbl, key, name)) WITHOUT ROWID;

        -- The rows of the store that aren't at the state: as the store has them, NULL if it doesn't.
        -- They are in the order in which they became so: mostly the store's.
        CREATE TABLE pending (
            id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, name BLOB NOT NULL, image BLOB, UNIQUE (tbl, name)
        );
        CREATE TABLE pending_counts (
            tbl INTEGER, name BLOB, count INTEGER NOT NULL, PRIMARY KEY (tbl, name)
        ) WITHOUT ROWID;
        -- The pending rows that the store's constraints refuse, and why.
        CREATE TABLE refusals (tbl INTEGER, name BLOB, reason TEXT NOT NULL, PRIMARY KEY (tbl, name)) WITHOUT ROWID;
        -- What the last write replaced in the store.
        CREATE TABLE replaced (
            id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, name BLOB NOT NULL, image BLOB, UNIQUE (tbl, name)
        );

        -- The integer keys of rows in this device's store, and in their authors' stores.
        CREATE TABLE numbers (
            tbl INTEGER, name BLOB, number INTEGER, wish INTEGER, PRIMARY KEY (tbl, name)
        ) WITHOUT ROWID;
        CREATE UNIQUE INDEX numbers_by_number ON numbers (tbl, number);

        -- The leaves of the store's tables when it was captured last, in parts: the number of the last row, and the leaves.
        CREATE TABLE pages (tbl INTEGER, last INTEGER, leaves BLOB NOT NULL, PRIMARY KEY (tbl, last)) WITHOUT ROWID;

        -- All sets that arrived; bytes are NULL for stable sets of other devices, sum unless a set is integrated
        -- and the digest after it is known. Of the stable sets, only each client's last one has its header.
        CREATE TABLE sets (
            id INTEGER PRIMARY KEY, client TEXT NOT NULL, sequence INTEGER NOT NULL, digest BLOB NOT NULL,
            stamp INTEGER NOT NULL, status INTEGER NOT NULL, origin INTEGER NOT NULL, readable INTEGER NOT NULL,
            header BLOB NOT NULL, sum BLOB, bytes BLOB, UNIQUE (client, sequence, digest)
        );
        CREATE INDEX sets_by_position ON sets (status, stamp, client, sequence);
        -- For trimming: few of the stable sets have bytes.
        CREATE INDEX sets_with_bytes ON sets (client) WHERE bytes IS NOT NULL AND \(ReplicaLog.Origin.isForeign);
        -- What integrated sets replaced.
        CREATE TABLE undo (
            id INTEGER PRIMARY KEY, client TEXT NOT NULL, sequence INTEGER NOT NULL, digest BLOB NOT NULL,
            items BLOB NOT NULL
        );
        CREATE INDEX undo_by_set ON undo (client, sequence, digest);

        -- The newest head of each client, and the last set of each removed client that counts.
        CREATE TABLE heads (client TEXT PRIMARY KEY, bytes BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE removals (client TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;

        -- The schemas that sets were captured in, by their digests.
        CREATE TABLE schemas (digest BLOB PRIMARY KEY, number INTEGER NOT NULL, bytes BLOB) WITHOUT ROWID;

        CREATE TABLE conflicts (
            number INTEGER PRIMARY KEY AUTOINCREMENT, client TEXT NOT NULL, sequence INTEGER NOT NULL,
            stamp INTEGER NOT NULL, rule TEXT NOT NULL, tbl INTEGER NOT NULL, name BLOB NOT NULL, lost BLOB NOT NULL,
            kept BLOB NOT NULL, other_client TEXT, other_sequence INTEGER, other_stamp INTEGER
        );
        CREATE INDEX conflicts_by_set ON conflicts (client, sequence);
        """
}

/// What a replica knows of itself.
enum ReplicaFact: String {
    /// What the replica belongs to: this device, the document, and its origin, by which the store keeps the token.
    case client, document, origin
    /// The document's rules, as JSON; nothing if it has none.
    case rules
    /// The store's token, and the token that the next write gives it.
    case token, preparedToken
    /// Whether edits were captured since the store got its token: a store from before them must not pass for this one.
    case tokenIsOld
    /// The last counter that this device gave to an inserted row.
    case counter
    /// The greatest stamp that was read.
    case clock
    /// For each client the last set whose effect is in the store.
    case seen
    /// What can't be undone any more.
    case stable
    /// Whether anything has changed by which sets are judged since they were judged last.
    case unjudged
    /// Whether a schema or its number is new since it was judged which waiting sets the store can read.
    case unread
    /// The schema by which rows are stored here.
    case layout
    /// The digests of the schemas by which rows were stored here before.
    case formerLayouts
    /// The greatest version of a schema among the stable sets, and the document's beginning.
    case stableSchema
    /// The digests of earlier schemas by whose unique indexes rows are found, too.
    case earlierSchemas
    /// Whether digests of the state contain all of its rows: otherwise the ones that the document began with are left out.
    case digestsHaveAllRows
    /// The status of the store's files when it had nothing that the replica doesn't have.
    case status
    /// Whether the schema has changed since the last capture.
    case migrated
    /// The names of tables and columns that an update has added again, until a synchronization has told that.
    case addedAgain
    /// The digest of the schema before the last update, as long as the store's schema has no set and isn't captured.
    case updatedFrom
    /// The key of the hashes of the store's pages, and a digest of the schema that the store had with them.
    case pages
    /// The digests of the entries of the conflict log whose losses the user has restored.
    case restored
    /// The names of the store's tables and of their columns, as JSON; nothing if the document has no rules.
    case names

    func read(_ db: SQLConnection) throws -> [UInt8]? {
        try db.first("SELECT value FROM facts WHERE name = ?", [.text(rawValue)])?.bytes(0)
    }

    func write(_ value: [UInt8]?, _ db: SQLConnection) throws {
        if let value {
            try db.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", [.text(rawValue), .blob(value)])
        } else {
            try db.execute("DELETE FROM facts WHERE name = ?", [.text(rawValue)])
        }
    }

    /// Whether a fact holds that is true or false.
    func isSet(_ db: SQLConnection) throws -> Bool { try read(db) != nil }

    func set(_ db: SQLConnection) throws { try writeNumber(1, db) }

    func text(_ db: SQLConnection) throws -> String? { try read(db).map { String(decoding: $0, as: UTF8.self) } }

    func readNumber(_ db: SQLConnection) throws -> UInt64 {
        guard let bytes = try read(db) else { return 0 }
        guard bytes.count == UInt64.bitWidth / 8 else { throw StoreChangesError.damagedReplica }
        let number = UInt64(littleEndianBytes: bytes[...])
        // No counter and no clock gets there, and what reads them adds to them.
        guard number < Int64.max else { throw StoreChangesError.damagedReplica }
        return number
    }

    func writeNumber(_ number: UInt64, _ db: SQLConnection) throws { try write(number.littleEndianBytes, db) }
}
