import ContentDigests
import GRDB
import GRDBSQLite

/// The pages of the store as they were when it was captured last, in the replica's database.
///
/// They only tell which rows need not be compared: a row of a page that is as it was is as the replica has it. If they are
/// forgotten, all rows are compared.
struct PageMemory {
    private let state: ReplicaState
    private var db: SQLConnection { state.db }

    init(_ state: ReplicaState) { self.state = state }

    /// Reads the pages of a store, and finds what may have changed since the last capture.
    ///
    /// - Parameter store: The store, in a transaction.
    /// - Returns: The pages, to be remembered after the capture; `nil` in a transaction that writes, or if part of the store
    ///   isn't in its file, but in a log.
    /// - Throws: `DatabaseError`.
    func read(_ store: Database) throws -> RememberedPages? {
        guard sqlite3_txn_state(store.sqliteConnection, "main") != SQLITE_TXN_WRITE else { return nil }
        let (schema, roots) = try schema(of: store)
        // A damaged record is none.
        let known = try ReplicaFact.pages.read(db).flatMap { $0.count > KeyedHash.keyBytes ? $0 : nil }
        let isKnown = known.map { Array($0.dropFirst(KeyedHash.keyBytes)) == schema } ?? false
        let key =
            known.map { Array($0.prefix(KeyedHash.keyBytes)) }
            ?? (0..<KeyedHash.keyBytes).map { _ in UInt8.random(in: .min ... .max) }
        guard let pages = try StorePages(of: store, key: key) else { return nil }
        var remembered = RememberedPages(fact: key + schema)
        for (name, table) in state.schema.tables {
            let leaves = roots[name].flatMap {
                state.schema.hasIntegerKey(name) && !table.schema.isWithoutRowID
                    ? pages.leaves(fromRoot: $0) : pages.wholeTree(fromRoot: $0)
            }
            guard let leaves else {
                remembered.isComplete = false
                continue
            }
            remembered.leaves[name] = leaves
            guard isKnown, let former = try self.leaves(of: name) else { continue }
            remembered.changes[name] = leaves.changes(since: former)
        }
        return remembered
    }

    /// Remembers the pages of a store that was captured; with `nil`, the next capture compares all rows.
    func write(_ pages: RememberedPages?) throws {
        guard let pages else { return try ReplicaFact.pages.write(nil, db) }
        for name in state.schema.tables.keys { try write(pages.leaves[name] ?? TableLeaves(), of: name) }
        try ReplicaFact.pages.write(pages.fact, db)
    }

    private func write(_ leaves: TableLeaves, of name: String) throws {
        let (table, parts) = (try state.table(name), leaves.parts)
        var former: [Int64: [UInt8]] = [:]
        for values in try db.all("SELECT last, leaves FROM pages WHERE tbl = ?", [table]) {
            if let last = values.integer(0) { former[last] = values.bytes(1) }
        }
        for last in former.keys where parts[last] == nil {
            try db.execute("DELETE FROM pages WHERE tbl = ? AND last = ?", [table, .integer(last)])
        }
        for (last, leaves) in parts where leaves != former[last] {
            try db.execute(
                "INSERT OR REPLACE INTO pages (tbl, last, leaves) VALUES (?, ?, ?)",
                [table, .integer(last), .blob(leaves)]
            )
        }
    }

    /// Forgets the pages of the pending rows, when these were written.
    ///
    /// If the user puts back what the rows held, their pages may be as they were captured.
    func forgetPending() throws {
        for name in state.schema.tables.keys {
            guard var leaves = try leaves(of: name) else { continue }
            let (table, numbered) = (try state.table(name), try state.table(state.schema.numberedTable(name)))
            let rows = try db.all(
                """
                SELECT number FROM pending p LEFT JOIN numbers n ON n.tbl = ? AND n.name = p.name WHERE p.tbl = ?
                UNION ALL SELECT NULL FROM pending_counts WHERE tbl = ? ORDER BY 1
                """,
                [numbered, table, table]
            )
            guard !rows.isEmpty else { continue }
            let numbers = rows.compactMap { $0.integer(0) }
            // A row without a number may be in any leaf.
            if numbers.count == rows.count { leaves.forget(numbers) } else { leaves = TableLeaves() }
            try write(leaves, of: name)
        }
    }

    private func leaves(of table: String) throws -> TableLeaves? {
        let parts = try db.all("SELECT leaves FROM pages WHERE tbl = ? ORDER BY last", [state.table(table)])
        return parts.isEmpty ? nil : TableLeaves(parts: parts.compactMap { $0.bytes(0) })
    }

    /// A digest of everything on which it depends how rows are stored, and the first pages of the tables.
    private func schema(of store: Database) throws -> (digest: [UInt8], roots: [String: UInt32]) {
        var writer = ByteWriter()
        writer.raw(try ReplicaFact.layout.read(db) ?? [])
        var roots: [String: UInt32] = [:]
        let rows = try SQLConnection(store).all(
            "SELECT name, rootpage, sql, type FROM sqlite_schema WHERE tbl_name <> ? ORDER BY rowid",
            [.text(StoreToken.table)]
        )
        for values in rows {
            for value in values { writer.cell(.value(value)) }
            guard values.text(3) == "table", let name = values.text(0), let root = values.integer(1) else { continue }
            roots[name] = UInt32(exactly: root)
        }
        return (SetDigest(of: writer.bytes).rawValue, roots)
    }
}

/// The pages of a store at a capture.
package struct RememberedPages {
    /// The key of the hashes and the digest of the schema.
    fileprivate let fact: [UInt8]
    fileprivate(set) var leaves: [String: TableLeaves] = [:]
    /// Whether all tables' trees are as expected.
    fileprivate var isComplete = true
    /// The rows of tables that may have changed.
    fileprivate(set) var changes: [String: ChangedRows] = [:]

    fileprivate init(fact: [UInt8]) { self.fact = fact }

    /// Whether few rows have to be compared, so that it doesn't take longer than copying the store.
    var areMostlyUnchanged: Bool {
        var (changedCount, count) = (0, 0)
        for (table, leaves) in leaves {
            count += leaves.uppers.count
            switch changes(of: table) {
            case .all: changedCount += leaves.uppers.count
            case .ranges(_, let leafCount): changedCount += leafCount
            }
        }
        return isComplete && changedCount * 8 <= count
    }

    /// Which rows of a table may have changed.
    func changes(of table: String) -> ChangedRows { changes[table] ?? .all }
}
