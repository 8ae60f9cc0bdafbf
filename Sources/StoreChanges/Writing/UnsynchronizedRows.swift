import GRDB

/// The rows that don't synchronize, and refer to rows that do.
///
/// Merging deletes rows without observing foreign keys. Afterwards these rows refer to the row into which theirs was merged.
/// If it's gone, they get what their foreign keys declare, without triggers. Where that is a refusal, a constraint refuses
/// it, or a default needs what only the app has, they stay as they are.
struct UnsynchronizedRows {
    private let store: SQLConnection
    private let references: [UnsynchronizedReference]
    /// For each foreign key, the values of deleted rows to which it may refer; each with the row's name if the row
    /// synchronizes.
    private var noted: [[(values: [StoredValue], row: RowReference?)]]

    init(in store: SQLConnection, _ references: [UnsynchronizedReference]) {
        self.store = store
        self.references = references
        noted = references.map { _ in [] }
    }

    /// Notes a row that is about to be deleted.
    mutating func note(_ row: RowReference, in table: StoreTable) throws {
        for (index, reference) in references.enumerated() where reference.key.parent.isSameName(as: row.table) {
            if let values = try table.values(of: reference.key.parentColumns, in: row) {
                note(values, of: row, at: index)
            }
        }
    }

    private mutating func note(_ values: [StoredValue], of row: RowReference?, at index: Int) {
        guard !values.contains(.null), values.count == references[index].key.columns.count else { return }
        noted[index].append((values, row))
    }

    /// Leads the foreign keys to other rows or does what they declare, after the noted rows were deleted.
    ///
    /// - Parameter presentValues: Returns what columns hold in the row into which a deleted row was merged; `nil` if there is
    ///   none.
    /// - Throws: `DatabaseError`, and what the function throws.
    mutating func followForeignKeys(
        presentValues: (_ columns: [String], _ row: RowReference) throws -> [StoredValue]?
    ) throws {
        while let index = noted.firstIndex(where: { !$0.isEmpty }) {
            let (reference, rows) = (references[index], noted[index])
            noted[index] = []
            let key = reference.key
            let condition = key.parentColumns.map { "\($0.quotedName) = ?" }.joined(separator: " AND ")
            let parent = "SELECT 1 FROM \(key.parent.quotedName) WHERE \(condition)"
            let declared = try declaredValues(of: reference)
            let replacements = try rows.compactMap { values, row -> [StoredValue]? in
                guard try store.first(parent, values) == nil else { return nil }
                let present = try row.flatMap { try presentValues(key.parentColumns, $0) }
                return (present.flatMap { $0.contains(.null) ? nil : $0 } ?? declared).map { values + $0 }
            }
            try replace(replacements[...], in: reference)
        }
    }

    /// Replaces the values of a foreign key, but for those of rows that SQLite refuses.
    private mutating func replace(
        _ replacements: ArraySlice<[StoredValue]>,
        in reference: UnsynchronizedReference
    ) throws {
        do {
            try replaceAll(replacements, in: reference)
        } catch let error as DatabaseError where error.isOfRow {
            // This error is mostly the statement's, as for lack of the app's function, and then no part of the rows helps.
            guard replacements.count > 1, error.resultCode != .SQLITE_ERROR else { return }
            let middle = replacements.startIndex + replacements.count / 2
            try replace(replacements[..<middle], in: reference)
            try replace(replacements[middle...], in: reference)
        }
    }

    /// What the columns of a foreign key get when the row to which they refer is gone; `nil` if they stay as they are.
    ///
    /// For a cascade it's `NULL`, by which ``replaceAll(_:in:)`` finds the rows to delete.
    private func declaredValues(of reference: UnsynchronizedReference) throws -> [StoredValue]? {
        let columns = reference.key.columns
        switch reference.key.onDelete {
        case .noAction, .restrict: return nil
        case .setNull, .cascade: return columns.map { _ in .null }
        case .setDefault:
            do {
                return try columns.map { try defaultValue(of: $0, in: reference.table) }
            } catch let error as DatabaseError where error.isOfRow {
                return nil
            }
        }
    }

    private func defaultValue(of column: String, in table: String) throws -> StoredValue {
        let sql = "SELECT dflt_value FROM pragma_table_info(?) WHERE name = ? COLLATE NOCASE"
        let expression = try store.first(sql, [.text(table), .text(column)])?.text(0) ?? "NULL"
        return try store.first("SELECT \(expression)")?[0] ?? .null
    }

    /// Replaces the values of a foreign key.
    ///
    /// SQLite reads the table once for all values, or uses an index if there is one. The temporary table has the affinities of
    /// the columns, because SQLite would search it from start to end for each row otherwise.
    ///
    /// - Parameters:
    ///   - replacements: The former values, each followed by the new ones.
    ///   - reference: The foreign key. If it declares a cascade, rows that would get `NULL` are deleted.
    /// - Throws: `DatabaseError`.
    private mutating func replaceAll(
        _ replacements: ArraySlice<[StoredValue]>,
        in reference: UnsynchronizedReference
    ) throws {
        guard !replacements.isEmpty else { return }
        let (table, columns) = (reference.table.quotedName, reference.key.columns.map(\.quotedName))
        let (former, new) = (columns.indices.map { "former\($0)" }, columns.indices.map { "new\($0)" })
        // Through `prepare`, so that no observer of the app's connection sees the temporary table.
        let list = zip(columns + columns, former + new).map { "\($0) AS \($1)" }.joined(separator: ", ")
        try store.prepare("CREATE TEMP TABLE storesync_values AS SELECT \(list) FROM \(table) WHERE 0").execute([])
        defer { try? store.prepare("DROP TABLE temp.storesync_values").execute([]) }
        let parameters = (former + new).map { _ in "?" }.joined(separator: ", ")
        let insert = try store.prepare("INSERT INTO temp.storesync_values VALUES (\(parameters))")
        for values in replacements { try insert.execute(values) }
        if reference.key.onDelete == .cascade {
            let gone = "SELECT \(former.joined(separator: ", ")) FROM temp.storesync_values WHERE new0 IS NULL"
            let condition = "(\(columns.joined(separator: ", "))) IN (\(gone))"
            for (index, child) in references.enumerated() where child.key.parent.isSameName(as: reference.table) {
                let list = child.key.parentColumns.map(\.quotedName).joined(separator: ", ")
                for values in try store.all("SELECT \(list) FROM \(table) WHERE \(condition)") {
                    note(values, of: nil, at: index)
                }
            }
            try store.execute("DELETE FROM \(table) WHERE \(condition)")
        }
        let assignments = zip(columns, new).map { "\($0) = storesync_values.\($1)" }.joined(separator: ", ")
        let conditions = zip(columns, former).map { "\(table).\($0) = storesync_values.\($1)" }
        try store.execute(
            """
            UPDATE OR IGNORE \(table) SET \(assignments) FROM temp.storesync_values
            WHERE \(conditions.joined(separator: " AND "))
            """
        )
    }
}
