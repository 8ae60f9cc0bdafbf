/// How a replica's database finds a row.
struct RowKey {
    /// The table's number in the database.
    var table: Int64
    /// The row's encoded name.
    var name: [UInt8]
}

/// The statements by which a fold reads and writes rows, prepared once.
///
/// Their first two parameters are the row's key.
struct RowStatements {
    let row: SQLStatement
    let rowExists: SQLStatement
    let updateRow: SQLStatement
    let deleteRow: SQLStatement
    let tomb: SQLStatement
    let tombExists: SQLStatement
    let pending: SQLStatement
    let insertPending: SQLStatement
    let deletePending: SQLStatement

    init(_ db: SQLConnection) throws {
        let condition = "WHERE tbl = ?1 AND name = ?2"
        row = try db.prepare("SELECT image, inserters FROM rows \(condition)")
        rowExists = try db.prepare("SELECT 1 FROM rows \(condition)")
        updateRow = try db.prepare("UPDATE rows SET image = ?3, inserters = ?4 \(condition)")
        deleteRow = try db.prepare("DELETE FROM rows \(condition)")
        tomb = try db.prepare("SELECT image, inserters, deleters FROM tombs \(condition)")
        tombExists = try db.prepare("SELECT 1 FROM tombs \(condition)")
        pending = try db.prepare("SELECT image FROM pending \(condition)")
        insertPending = try db.prepare("INSERT INTO pending (tbl, name, image) VALUES (?1, ?2, ?3)")
        deletePending = try db.prepare("DELETE FROM pending \(condition)")
    }
}

extension SQLStatement {
    /// Binds a row's key to the first two parameters.
    @discardableResult
    func bind(_ key: RowKey) throws -> SQLStatement {
        reset()
        try bind(key.table, at: 1)
        try bind(key.name, at: 2)
        return self
    }
}
