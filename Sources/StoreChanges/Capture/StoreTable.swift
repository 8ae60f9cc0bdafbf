import GRDB

/// A table of the store, read and written with the names of the replica.
struct StoreTable {
    let name: String
    let table: FoldSchema.Table
    let store: SQLConnection
    let state: ReplicaState
    private let numbers: ReplicaNumbers
    private let updates: UpdateStatements
    /// The table's columns, in ascending order of their names.
    private var columns: [String] { table.columns }

    init(_ name: String, in store: SQLConnection, _ state: ReplicaState) throws {
        self.name = name
        self.store = store
        self.state = state
        numbers = ReplicaNumbers(state)
        table = try state.schema.table(name)
        updates = UpdateStatements(table)
    }

    /// The column with integers that differ between devices; `nil` if the table has none.
    var integerKey: String? {
        if case .integer(let column) = table.schema.key { column } else { nil }
    }

    // MARK: Reading

    /// Whether SQLite may give a new row the number of a deleted row.
    var reusesNumbers: Bool {
        integerKey != nil && !SQLTokens(table.schema.statement).tokens.contains { $0.isKeyword("AUTOINCREMENT") }
    }

    /// The greatest number of a row, less than another one.
    func greatestNumber(below limit: Int64?) throws -> Int64? {
        guard let key = integerKey?.quotedName else { return nil }
        let condition = limit == nil ? "" : " WHERE \(key) < ?"
        let sql = "SELECT max(\(key)) FROM \(name.quotedName)\(condition)"
        return try store.first(sql, limit.map { [.integer($0)] } ?? [])?.integer(0)
    }

    /// How many rows there are.
    func count() throws -> Int {
        try store.first("SELECT count(*) FROM \(name.quotedName)")?.integer(0).map { Int($0) } ?? 0
    }

    /// Whether a row of a number exists.
    func exists(_ number: Int64) throws -> Bool {
        guard let key = integerKey?.quotedName else { return false }
        return try store.first("SELECT 1 FROM \(name.quotedName) WHERE \(key) = ?", [.integer(number)]) != nil
    }

    /// The greatest number that SQLite knows of the table.
    func greatestNumber() throws -> Int64 {
        guard let key = integerKey?.quotedName else { return 0 }
        let greatest = try store.first("SELECT max(\(key)) FROM \(name.quotedName)")?.integer(0) ?? 0
        // The table exists only where a key is declared AUTOINCREMENT.
        let exists = try store.first("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'") != nil
        let sequence = try exists ? store.first("SELECT seq FROM sqlite_sequence WHERE name = ?", [.text(name)]) : nil
        return max(greatest, sequence?.integer(0) ?? 0)
    }

    /// Deletes the rows of numbers that have no name, because a trigger inserted them; returns whether there were any.
    func deleteUnnamedRows() throws -> Bool {
        guard let key = integerKey?.quotedName else { return false }
        var unnamed: [Int64] = []
        try store.forEach("SELECT \(key) FROM \(name.quotedName) ORDER BY \(key)") { values in
            guard let number = values.integer(0), try numbers.name(of: number, in: name) == nil else { return }
            unnamed.append(number)
        }
        for number in unnamed {
            try store.execute("DELETE FROM \(name.quotedName) WHERE \(key) = ?", [.integer(number)])
        }
        return !unnamed.isEmpty
    }

    /// A row of the store by its name in all stores.
    struct Row {
        var reference: RowReference
        /// The cells outside the key.
        var cells: [String: Cell]
    }

    /// All rows, in the order of the table's key.
    func forEachRow(_ body: (Row) throws -> Void) throws {
        let order =
            table.schema.key.columns.isEmpty
            ? "" : " ORDER BY \(table.schema.key.columns.map(\.quotedName).joined(separator: ", "))"
        try store.forEach("SELECT \(columnList) FROM \(name.quotedName)\(order)") { values in
            if let row = try row(values) { try body(row) }
        }
    }

    /// The row of a number.
    func row(numbered number: Int64) throws -> Row? {
        guard let key = integerKey?.quotedName else { return nil }
        let sql = "SELECT \(columnList) FROM \(name.quotedName) WHERE \(key) = ?"
        return try store.first(sql, [.integer(number)]).flatMap(row)
    }

    /// The row of a name as the replica would store it.
    func storedRow(_ reference: RowReference) throws -> StoredRow? {
        try row(reference).map { StoredRow(table, $0.cells) }
    }

    /// The row of a name, as the store has it.
    func row(_ reference: RowReference) throws -> Row? {
        guard let (condition, values) = try condition(reference) else { return nil }
        let sql = "SELECT \(columnList) FROM \(name.quotedName) WHERE \(condition)"
        return try store.first(sql, values).flatMap(row)
    }

    /// The values of columns in a row; `nil` if the row isn't there.
    func values(of columns: [String], in row: RowReference) throws -> [StoredValue]? {
        guard let (condition, values) = try condition(row) else { return nil }
        let list = columns.map(\.quotedName).joined(separator: ", ")
        return try store.first("SELECT \(list) FROM \(name.quotedName) WHERE \(condition)", values)
    }

    private var columnList: String { columns.map(\.quotedName).joined(separator: ", ") }

    /// `nil` for a row with an integer key that has no name yet.
    private func row(_ values: [StoredValue]) throws -> Row? {
        var cells: [String: Cell] = [:]
        for (column, value) in zip(columns, values) {
            cells[column] = column == integerKey ? .value(value) : try cell(value, of: column)
        }
        switch table.schema.key {
        case .integer(let column):
            guard case .value(.integer(let number)) = cells[column], let row = try numbers.name(of: number, in: name)
            else {
                return nil
            }
            cells[column] = nil
            return Row(reference: RowReference(name, row), cells: cells)
        case .meaningful, .natural, .none:
            let key = table.schema.key.columns.map { cells[$0] ?? .null }
            guard !key.isEmpty, !key.contains(.null) else {
                let all = columns.map { cells[$0] ?? .null }
                return Row(reference: RowReference(name, .key(all)), cells: [:])
            }
            for column in table.keyColumns { cells[column] = nil }
            return Row(reference: RowReference(name, .key(key)), cells: cells)
        }
    }

    /// What a column's value is in all stores: a number of a row becomes the row's name, even if the row is gone.
    ///
    /// Numbers that no row had stay as they are.
    private func cell(_ value: StoredValue, of column: String) throws -> Cell {
        guard let parent = state.schema.rowTable(of: column, in: name),
            let number = value.rowNumber(in: table.affinity(of: column))
        else {
            return .value(value)
        }
        let row =
            try StoreTable(parent, in: store, state).exists(number)
            ? numbers.name(of: number, in: parent) : numbers.name(ofMissing: number, in: parent)
        return row.map(Cell.row) ?? .value(value)
    }

    // MARK: Writing

    /// Executes a statement that writes one row.
    ///
    /// - Throws: `DatabaseError`, also if SQLite left the row as it was without an error, as a trigger with `RAISE(IGNORE)`
    ///   or a constraint with `ON CONFLICT IGNORE` asks for.
    private func write(_ sql: String, _ values: consuming [StoredValue]) throws {
        try store.execute(sql, values)
        guard store.writtenCount == 1 else { throw Self.ignored }
    }

    private static let ignored = DatabaseError(
        resultCode: .SQLITE_CONSTRAINT,
        message: "a trigger or a constraint ignores the row"
    )

    /// The value of a cell in this store.
    ///
    /// - Throws: `DatabaseError`, also if the cell is a row and the column refers to none: `NULL` would look like an edit.
    func value(_ cell: Cell, of column: String) throws -> StoredValue {
        switch cell {
        case .value(let value): return value
        case .row(let row):
            guard let parent = state.schema.rowTable(of: column, in: name) else {
                throw DatabaseError(
                    resultCode: .SQLITE_CONSTRAINT,
                    message: "\(name).\(column) isn't a reference any more"
                )
            }
            guard let number = try numbers.number(of: RowReference(parent, row)) else { return .null }
            return StoredValue(rowNumber: number, in: table.affinity(of: column))
        }
    }

    /// The condition that only a row fulfils; `nil` if the row has no number here.
    private func condition(_ row: RowReference) throws -> (String, [StoredValue])? {
        if case .integer(let column) = table.schema.key {
            return try numbers.number(of: row).map { ("\(column.quotedName) = ?", [.integer($0)]) }
        }
        let isCounted = state.schema.isCounted(row)
        let named = isCounted ? columns : table.schema.key.columns
        let values = try values(of: named, namedBy: row)
        guard isCounted else { return condition(named, values) }
        // A row without a key is found by its bytes, because its name has them: 1 isn't 1.0 here.
        let conditions = named.map { "\($0.quotedName) IS ? COLLATE BINARY AND typeof(\($0.quotedName)) = typeof(?)" }
        return (Self.conjunction(conditions[...]), values.flatMap { [$0, $0] })
    }

    /// What columns hold in this store by a row's name: the key's, or all of a row without a key.
    private func values(of columns: [String], namedBy row: RowReference) throws -> [StoredValue] {
        try columns.map { try value(state.schema.cell($0, of: row, StoredRow(countedIn: table)), of: $0) }
    }

    /// The condition that only the row with a natural key fulfils.
    private func condition(_ key: [String], _ values: [StoredValue]) -> (String, [StoredValue]) {
        var (conditions, bound): ([String], [StoredValue]) = ([], [])
        for (column, value) in zip(key, values) {
            let collation = table.keyCollations[column] ?? .binary
            // By its index SQLite finds the row fast, and by the bytes no row of another name.
            for collation in collation == .binary ? [.binary] : [collation, .binary] {
                conditions.append("\(column.quotedName) = ? COLLATE \(collation.rawValue)")
                bound.append(value)
            }
        }
        return (Self.conjunction(conditions[...]), bound)
    }

    /// All conditions at once.
    ///
    /// SQLite limits the depth of an expression, and a chain of conditions is as deep as it's long. So this is a balanced tree.
    private static func conjunction(_ conditions: ArraySlice<String>) -> String {
        guard conditions.count > 2 else { return conditions.joined(separator: " AND ") }
        let middle = conditions.startIndex + conditions.count / 2
        return "(\(conjunction(conditions[..<middle]))) AND (\(conjunction(conditions[middle...])))"
    }

    /// Deletes a row, if it's there.
    func delete(_ row: RowReference) throws {
        guard let (condition, values) = try condition(row) else { return }
        try store.execute("DELETE FROM \(name.quotedName) WHERE \(condition)", values)
        guard try store.writtenCount > 0 || self.row(row) == nil else { throw Self.ignored }
    }

    /// Finds rows without a key by reading the table once.
    ///
    /// - Parameter counts: How many of equal rows to find.
    /// - Returns: The rowids.
    /// - Throws: `DatabaseError`.
    func rowIdentifiers(of counts: [RowReference: Int]) throws -> [RowReference: [Int64]] {
        guard let number = try rowIdentifier() else { return [:] }
        var rows: [[StoredValue]: RowReference] = [:]
        for row in counts.keys { rows[try values(of: columns, namedBy: row)] = row }
        var found: [RowReference: [Int64]] = [:]
        try store.forEach("SELECT \(number), \(columnList) FROM \(name.quotedName)") { values in
            guard let row = rows[Array(values.dropFirst())], let identifier = values.integer(0),
                found[row, default: []].count < counts[row, default: 0]
            else { return }
            found[row, default: []].append(identifier)
        }
        return found
    }

    /// Deletes one of several equal rows.
    ///
    /// - Parameters:
    ///   - row: The row.
    ///   - identifier: The rowid that it had; a trigger may have changed it, or the row.
    /// - Throws: `DatabaseError`.
    func deleteOne(_ row: RowReference, at identifier: Int64?) throws {
        guard let (condition, values) = try condition(row) else { return }
        guard let number = try rowIdentifier() else { throw Self.ignored }
        let table = name.quotedName
        // SQLite finds -0.0 by 0.0.
        guard !values.contains(where: \.isZero) else {
            let isThere = try identifier.map { try has(row, at: $0) } ?? false
            guard let exact = isThere ? identifier : try rowIdentifiers(of: [row: 1])[row]?.first else {
                throw Self.ignored
            }
            return try write("DELETE FROM \(table) WHERE \(number) = ?", [.integer(exact)])
        }
        if let identifier {
            let known = "\(number) = ? AND (\(condition))"
            try store.execute("DELETE FROM \(table) WHERE \(known)", [.integer(identifier)] + values)
            if store.writtenCount == 1 { return }
        }
        let one = "\(number) = (SELECT \(number) FROM \(table) WHERE \(condition) LIMIT 1)"
        try write("DELETE FROM \(table) WHERE \(one)", values)
    }

    /// Whether a rowid is that of a row without a key, by its bytes.
    private func has(_ row: RowReference, at identifier: Int64) throws -> Bool {
        guard let number = try rowIdentifier() else { return false }
        let sql = "SELECT \(columnList) FROM \(name.quotedName) WHERE \(number) = ?"
        return try store.first(sql, [.integer(identifier)]) == values(of: columns, namedBy: row)
    }

    /// The name of the rowid; `nil` if columns have all its names.
    private func rowIdentifier() throws -> String? {
        let columns = try store.all("SELECT name FROM pragma_table_xinfo(?)", [.text(name)]).compactMap { $0.text(0) }
        return TableSchema.rowIdentifier(besides: columns)
    }

    /// Inserts one of equal rows without a key.
    func insertCounted(_ row: RowReference) throws { try insert(row, StoredRow(countedIn: table)) }

    func insert(_ row: RowReference, _ stored: StoredRow) throws {
        var values: [StoredValue] = []
        for column in columns {
            if column == integerKey {
                values.append(try numbers.number(of: row).map { .integer($0) } ?? .null)
            } else {
                values.append(try value(state.schema.cell(column, of: row, stored), of: column))
            }
        }
        let places = columns.map { _ in "?" }.joined(separator: ", ")
        try write("INSERT INTO \(name.quotedName) (\(columnList)) VALUES (\(places))", consume values)
    }

    /// Writes columns outside the key.
    ///
    /// - Parameters:
    ///   - row: The row.
    ///   - stored: What it will hold.
    ///   - columns: The columns, in ascending order of their names.
    ///   - number: The row's integer key, if it's known already.
    /// - Throws: `DatabaseError`.
    func update(
        _ row: RowReference,
        _ stored: StoredRow,
        writing columns: [String],
        number: Int64? = nil
    ) throws {
        guard !columns.isEmpty else { return }
        var values = try columns.map { try value(stored.cell($0) ?? .null, of: $0) }
        if let number, integerKey != nil {
            values.append(.integer(number))
            return try write(updates.statement(columns, updates.numberCondition), consume values)
        }
        guard let (condition, key) = try condition(row) else { return }
        values += key
        try write(updates.statement(columns, condition), consume values)
    }
}

extension StoredValue {
    /// Whether it's a floating-point zero, of which there are two.
    fileprivate var isZero: Bool {
        if case .real(let bitPattern) = self { Double(bitPattern: bitPattern).isZero } else { false }
    }
}
