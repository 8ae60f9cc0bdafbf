import GRDB

/// The rows that don't synchronize, and refer to rows that do.
///
/// Merging deletes rows without observing foreign keys. Afterwards these rows refer to the row into which theirs was merged.
/// If it's gone, they get what their foreign keys declare, without triggers. Where that is a refusal, a constraint refuses
/// it, or a default needs what only the app has, they stay as they are.
struct UnsynchronizedRows {
    private let store: SQLConnection
    private let references: [UnsynchronizedReference]
    /// The foreign keys that referred to deleted rows, with the values by which they did.
    private var dangling: [(reference: UnsynchronizedReference, values: [StoredValue], row: RowReference?)] = []

    init(in store: SQLConnection, _ references: [UnsynchronizedReference]) {
        self.store = store
        self.references = references
    }

    /// Notes a row that is about to be deleted.
    mutating func note(_ row: RowReference, in table: StoreTable) throws {
        for reference in references where reference.key.parent.isSameName(as: row.table) {
            if let values = try table.values(of: reference.key.parentColumns, in: row) {
                note(reference, values, of: row)
            }
        }
    }

    /// Notes a foreign key; of a row that doesn't synchronize without the row's name.
    private mutating func note(_ reference: UnsynchronizedReference, _ values: [StoredValue], of row: RowReference?) {
        guard !values.contains(.null), values.count == reference.key.columns.count else { return }
        dangling.append((reference, values, row))
    }

    /// Leads the foreign keys to other rows or does what they declare, after the noted rows were deleted.
    ///
    /// - Parameter presentValues: Returns what columns hold in the row into which a deleted row was merged; `nil` if there is
    ///   none.
    /// - Throws: `DatabaseError`, and what the function throws.
    mutating func followForeignKeys(
        presentValues: (_ columns: [String], _ row: RowReference) throws -> [StoredValue]?
    ) throws {
        while let (reference, values, row) = dangling.popLast() {
            let key = reference.key
            let parent = "SELECT 1 FROM \(key.parent.quotedName) WHERE \(Self.condition(key.parentColumns))"
            guard try store.first(parent, values) == nil else { continue }
            let present = try row.flatMap { try presentValues(key.parentColumns, $0) }
            do {
                if let present, !present.contains(.null) {
                    try move(reference, from: values, to: present)
                } else {
                    try follow(reference, values)
                }
            } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_ERROR].contains(error.resultCode) {
                continue
            }
        }
    }

    private func move(
        _ reference: UnsynchronizedReference,
        from values: [StoredValue],
        to present: [StoredValue]
    ) throws {
        let (table, columns) = (reference.table.quotedName, reference.key.columns)
        let assignments = columns.map { "\($0.quotedName) = ?" }.joined(separator: ", ")
        try store.execute(
            "UPDATE OR ABORT \(table) SET \(assignments) WHERE \(Self.condition(columns))",
            present + values
        )
    }

    private mutating func follow(_ reference: UnsynchronizedReference, _ values: [StoredValue]) throws {
        let (table, columns) = (reference.table.quotedName, reference.key.columns)
        let condition = Self.condition(columns)
        switch reference.key.onDelete {
        case .noAction, .restrict: break
        case .setNull:
            let assignments = columns.map { "\($0.quotedName) = NULL" }.joined(separator: ", ")
            try store.execute("UPDATE OR ABORT \(table) SET \(assignments) WHERE \(condition)", values)
        case .setDefault:
            let assignments = try columns.map { "\($0.quotedName) = \(try defaultValue(of: $0, in: reference.table))" }
            try store.execute(
                "UPDATE OR ABORT \(table) SET \(assignments.joined(separator: ", ")) WHERE \(condition)",
                values
            )
        case .cascade:
            for child in references where child.key.parent.isSameName(as: reference.table) {
                let list = child.key.parentColumns.map(\.quotedName).joined(separator: ", ")
                for row in try store.all("SELECT \(list) FROM \(table) WHERE \(condition)", values) {
                    note(child, row, of: nil)
                }
            }
            try store.execute("DELETE FROM \(table) WHERE \(condition)", values)
        }
    }

    private func defaultValue(of column: String, in table: String) throws -> String {
        let sql = "SELECT dflt_value FROM pragma_table_info(?) WHERE name = ? COLLATE NOCASE"
        return try store.first(sql, [.text(table), .text(column)])?.text(0) ?? "NULL"
    }

    private static func condition(_ columns: [String]) -> String {
        columns.map { "\($0.quotedName) = ?" }.joined(separator: " AND ")
    }
}
