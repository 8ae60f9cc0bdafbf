/// Reads the rows of a table of the store one after another, encoded as the replica has them.
///
/// Nothing is allocated for a row: a capture compares the bytes, and most rows are as they were.
struct StoreScan {
    /// A column, and what it refers to.
    private struct Column {
        var position: CInt
        var affinity: Affinity
        /// The rows with integer keys to which the column refers.
        var parents: ReferencedNames?

        /// Writes the column of a row as the replica has it.
        func write(from statement: SQLStatement, to writer: inout ByteWriter) throws {
            if let name = try reference(from: statement) { return writer.row(encodedName: name) }
            statement.write(position, to: &writer)
        }

        /// The encoded name of the row to which the column refers.
        func reference(from statement: SQLStatement) throws -> [UInt8]? {
            guard let parents, let number = statement.value(position).rowNumber(in: affinity) else { return nil }
            return try parents.name(of: number)
        }
    }

    private let statement: SQLStatement
    private let names: RowNames
    private let table: String
    private let numberColumn: CInt?
    private let keyColumns: [Column]
    private let valueColumns: [Column]
    private let allColumns: [Column]
    private let columns: [String: Column]
    /// The last column, with the position of a column whose text UTF-8 can't hold; `nil` if the store's text is UTF-8.
    private let lossColumn: CInt?
    private var key = ByteWriter()
    private var value = ByteWriter()

    /// The integer key of the row.
    private(set) var number: Int64?
    /// Whether the row has no key, so that equal ones are counted.
    private(set) var isCounted = false
    /// The encoded name of a row without an integer key.
    var name: [UInt8] { key.bytes }
    /// The encoded cells outside the key.
    var image: [UInt8] { value.bytes }

    /// Prepares to read a table.
    ///
    /// - Parameters:
    ///   - table: The table.
    ///   - store: The store.
    ///   - names: The names of rows with integer keys.
    ///   - schema: The schema.
    ///   - isOfRanges: Whether only rows are read whose integer keys are in ranges, each of which has to be chosen.
    /// - Throws: `DatabaseError`.
    init(
        _ table: FoldSchema.Table,
        in store: SQLConnection,
        _ names: RowNames,
        _ schema: FoldSchema,
        isOfRanges: Bool = false
    ) throws {
        self.table = table.schema.name
        self.names = names
        func columns(_ columns: [String]) throws -> [Column] {
            try columns.compactMap { name in
                try table.columns.firstIndex(of: name).map {
                    try Column(
                        position: CInt($0),
                        affinity: table.schema.column(name)?.affinity ?? .blob,
                        parents: schema.rowTable(of: name, in: table.schema.name).map(names.referenced)
                    )
                }
            }
        }
        allColumns = try columns(table.columns)
        self.columns = Dictionary(zip(table.columns, allColumns)) { first, _ in first }
        valueColumns = try columns(table.schema.valueColumns)
        if case .integer(let column) = table.schema.key {
            numberColumn = try columns([column]).first?.position
            keyColumns = []
        } else {
            numberColumn = nil
            keyColumns = try columns(table.schema.key.columns)
        }
        let isUTF8 = try store.first("PRAGMA encoding")?.text(0) == "UTF-8"
        lossColumn = isUTF8 ? nil : CInt(table.columns.count)
        let loss = isUTF8 ? [] : [Self.positionOfLoss(in: table.columns)]
        let list = (table.columns.map(\.quotedName) + loss).joined(separator: ", ")
        // In the order in which the rows are in the file.
        let rows = "SELECT \(list) FROM \(table.schema.name.quotedName) NOT INDEXED"
        let key = table.schema.key.columns.first?.quotedName ?? "rowid"
        statement = try store.prepareApart(isOfRanges ? "\(rows) WHERE \(key) BETWEEN ? AND ? ORDER BY \(key)" : rows)
    }

    /// The position of the first column whose text isn't the same after SQLite has converted it to UTF-8 and back.
    private static func positionOfLoss(in columns: [String]) -> String {
        let cases = columns.enumerated().map { "WHEN \(isLost($1)) THEN \($0)" }
        return "CASE \(cases.joined(separator: " ")) END"
    }

    /// `trim` reads UTF-8, and removes nothing here.
    private static func isLost(_ column: String) -> String {
        let column = column.quotedName
        return "typeof(\(column)) = 'text' AND CAST(\(column) AS BLOB) <> CAST(trim(\(column), '') AS BLOB)"
    }

    /// Refuses text that SQLite would write as other text: a row wouldn't be found by it, and be captured again each time.
    private func refuseLoss() throws {
        guard let lossColumn, let position = statement.integer(lossColumn),
            let column = columns.first(where: { $0.value.position == position })?.key
        else { return }
        throw StoreChangesError(
            .unsupportedFormat,
            """
            The store's text is UTF-16. Some of it, in \(column) of \(table), can't be converted to UTF-8 and back, such as \
            half a surrogate pair or U+FFFE. Find the rows with “SELECT * FROM \(table.quotedName) WHERE \
            \(Self.isLost(column))”, correct them, then synchronize again.
            """
        )
    }

    /// Goes before the first row of a range.
    mutating func choose(_ range: ClosedRange<Int64>) throws {
        try statement.bind([.integer(range.lowerBound), .integer(range.upperBound)])
    }

    /// Reads the next row; `false` at the end.
    mutating func next() throws -> Bool {
        try Task.checkCancellation()
        guard try statement.step() else { return false }
        try refuseLoss()
        key.clear()
        value.clear()
        if let numberColumn {
            number = statement.integer(numberColumn)
        } else {
            isCounted = keyColumns.isEmpty || keyColumns.contains { statement.isNull($0.position) }
            key.startName(count: isCounted ? allColumns.count : keyColumns.count)
            for column in isCounted ? allColumns : keyColumns { try column.write(from: statement, to: &key) }
            if isCounted { return true }
        }
        for column in valueColumns { try column.write(from: statement, to: &value) }
        return true
    }

    /// What a column of the row holds.
    func cell(_ column: String) throws -> Cell {
        guard let column = columns[column] else { return .null }
        if column.position == numberColumn { return .row(try rowName()) }
        if let name = try column.reference(from: statement) { return .row(try RowName(decoding: name)) }
        return .value(statement.value(column.position))
    }

    /// Writes the keys by which the row is found, which no evaluation needs.
    func write(_ keys: [StoreScanKey], rowNamed name: [UInt8], _ body: ([UInt8]) throws -> Void) throws {
        for key in keys {
            var writer = ByteWriter()
            writer.raw(key.prefix)
            if try write(key, rowNamed: name, to: &writer) { try body(writer.bytes) }
        }
    }

    private func write(_ key: StoreScanKey, rowNamed name: [UInt8], to writer: inout ByteWriter) throws -> Bool {
        for planned in key.plan.columns {
            guard let column = columns[planned.name], !statement.isNull(column.position) else { return false }
            if column.position == numberColumn {
                writer.row(encodedName: name)
            } else if let name = try column.reference(from: statement) {
                writer.row(encodedName: name)
            } else {
                writer.cell(planned.representative(.value(statement.value(column.position))))
            }
        }
        return true
    }

    /// The name of the row.
    func rowName() throws -> RowName {
        guard let number else { return try RowName(decoding: name) }
        return try names.name(of: number, in: table)
    }
}

/// A key by which rows are found, prepared for a scan.
struct StoreScanKey {
    let plan: LookupKeyPlan
    /// The bytes before the cells, which are the same for all rows.
    let prefix: [UInt8]

    init(_ plan: LookupKeyPlan) {
        self.plan = plan
        prefix = LookupKey(table: "", kind: plan.kind, cells: []).encoded
    }
}
