/// The integer keys that rows have in this device's store.
///
/// Where a table's integer key is a reference itself, its rows have the names and numbers of the other table's.
struct ReplicaNumbers {
    private let state: ReplicaState
    private var db: SQLConnection { state.db }

    init(_ state: ReplicaState) { self.state = state }

    private func tableKey(_ table: String) throws -> StoredValue { try state.table(state.schema.numberedTable(table)) }

    private func key(_ row: RowReference) throws -> [StoredValue] { [try tableKey(row.table), .blob(row.row.encoded)] }

    /// The number of a row; `nil` if it never was in the store.
    func number(of row: RowReference) throws -> Int64? {
        try db.first("SELECT number FROM numbers WHERE tbl = ? AND name = ?", try key(row))?.integer(0)
    }

    /// The number that its author's store gave a row.
    func wish(of row: RowReference) throws -> Int64? {
        try db.first("SELECT wish FROM numbers WHERE tbl = ? AND name = ?", try key(row))?.integer(0)
    }

    /// The row that has a number, or had it last.
    func name(of number: Int64, in table: String) throws -> RowName? {
        let values = [try tableKey(table), StoredValue.integer(number)]
        return try db.first("SELECT name FROM numbers WHERE tbl = ? AND number = ?", values)?.bytes(0)
            .map { try RowName(decoding: $0) }
    }

    /// The row that had a number last which no row of the store has; `nil` if none had it, or if the number stands for none.
    ///
    /// References to a deleted row keep its number, if the app doesn't enforce foreign keys. On other devices that may be the
    /// number of another row, so they still hold its name.
    func name(ofMissing number: Int64, in table: String) throws -> RowName? {
        number > 0 ? try name(of: number, in: table) : nil
    }

    /// How many rows have numbers of a range, or had them last.
    func count(in range: ClosedRange<Int64>, of table: String) throws -> Int {
        let values = [try tableKey(table), .integer(range.lowerBound), .integer(range.upperBound)]
        let count = try db.first("SELECT count(*) FROM numbers WHERE tbl = ? AND number BETWEEN ? AND ?", values)
        return count?.integer(0).map { Int($0) } ?? 0
    }

    /// Calls `body` with the rows that have numbers of a range, or had them last, in ascending order of the numbers.
    ///
    /// No number may be written meanwhile.
    func forEachName(of range: ClosedRange<Int64>, in table: String, _ body: (RowName) throws -> Void) throws {
        try db.forEach(
            "SELECT name FROM numbers WHERE tbl = ? AND number BETWEEN ? AND ? ORDER BY number",
            [try tableKey(table), .integer(range.lowerBound), .integer(range.upperBound)]
        ) { try body($0.rowName(0)) }
    }

    /// Gives a row a number, which another row loses.
    func setNumber(_ number: Int64, of row: RowReference) throws {
        try release(number, in: row.table)
        try db.execute(
            """
            INSERT INTO numbers (tbl, name, number) VALUES (?, ?, ?)
            ON CONFLICT (tbl, name) DO UPDATE SET number = excluded.number
            """,
            try key(row) + [.integer(number)]
        )
        try setNumber(.integer(number), ofRows: .blob(row.row.encoded), in: row.table)
    }

    /// Takes a number from the row that has it, if there is one.
    func release(_ number: Int64, in table: String) throws {
        let holder = [try tableKey(table), .integer(number)]
        guard let loser = try db.first("SELECT name FROM numbers WHERE tbl = ? AND number = ?", holder)?[0] else {
            return
        }
        try db.execute("UPDATE numbers SET number = NULL WHERE tbl = ? AND number = ?", holder)
        try setNumber(.null, ofRows: loser, in: table)
    }

    /// Takes their numbers from the rows that the state doesn't have.
    func releaseMissing(in table: String) throws {
        let tables = state.tablesNumbered(by: table)
        let places = tables.map { _ in "?" }.joined(separator: ", ")
        try db.execute(
            """
            UPDATE numbers SET number = NULL WHERE tbl = ?
                AND NOT EXISTS (SELECT 1 FROM rows r WHERE r.tbl IN (\(places)) AND r.name = numbers.name)
            """,
            [try tableKey(table)] + tables
        )
    }

    /// Notes a number where the rows are, so that a capture finds both at once.
    private func setNumber(_ number: StoredValue, ofRows name: StoredValue, in table: String) throws {
        for table in state.tablesNumbered(by: table) {
            try db.execute("UPDATE rows SET number = ? WHERE tbl = ? AND name = ?", [number, table, name])
        }
    }

    func setWish(_ wish: Int64, of row: RowReference) throws {
        try db.execute(
            """
            INSERT INTO numbers (tbl, name, wish) VALUES (?, ?, ?)
            ON CONFLICT (tbl, name) DO UPDATE SET wish = excluded.wish
            """,
            try key(row) + [.integer(wish)]
        )
    }

    /// The greatest number that a row of the table ever had here; 0 if none had one.
    func greatest(in table: String) throws -> Int64 {
        try db.first("SELECT max(number) FROM numbers WHERE tbl = ?", [try tableKey(table)])?.integer(0) ?? 0
    }

    /// Creates a name for a row that was inserted in this device's store.
    ///
    /// - Parameters:
    ///   - client: This device.
    ///   - digest: A digest of what tells the row from rows of a copy of this device.
    /// - Returns: The name.
    /// - Throws: `DatabaseError`.
    func createName(by client: ClientID, _ digest: SetDigest) throws -> RowName {
        let counter = try lastCounter() + 1
        try ReplicaFact.counter.writeNumber(UInt64(counter), db)
        return .numbered(client: client, number: RowName.number(counter: counter, digest))
    }

    /// The greatest counter in a name of a row that was inserted in this device's store.
    func lastCounter() throws -> Int64 { Int64(clamping: try ReplicaFact.counter.readNumber(db)) }

    /// Never again gives the names of a client's rows that a set inserts: of this device, or of a copy of it.
    func skipNames(in set: SyncChangeSet, of client: ClientID) throws {
        let counters = set.changes.lazy.compactMap { change -> Int64? in
            guard case .insert = change.edit, case .numbered(client, let number) = change.row else { return nil }
            return RowName.counter(in: number)
        }
        guard let greatest = counters.filter({ $0 <= RowName.greatestCounter }).max() else { return }
        try skipNames(to: greatest)
    }

    /// Never again gives a name with a counter up to this one.
    func skipNames(to counter: Int64) throws {
        if try counter > lastCounter() { try ReplicaFact.counter.writeNumber(UInt64(counter), db) }
    }
}
