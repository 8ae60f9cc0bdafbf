import HeapModule

/// Finds the rows with integer keys that a store and the state both have, although their numbers don't say so.
///
/// Rows are the same if all else is equal; a reference is equal if it leads to rows that are the same, or to none on either
/// side. Rows that refer to each other in a circle aren't found. What it finds is in memory.
struct EqualRows {
    /// The rows of a table of the store whose counterparts aren't known (yet).
    private struct Table {
        /// The values outside the key, by number.
        var rows: [Int64: [StoredValue]] = [:]
        /// The encoded cells of the rows of the state without a counterpart.
        var candidates: [RowName: [UInt8]] = [:]
        /// The names of all rows of the state by their encoded cells, in descending order; some may have a counterpart.
        var names: [[UInt8]: [RowName]] = [:]
        /// The orphans, by their encoded cells without those of some columns: rows whose references may lead to themselves, or
        /// to rows that are gone.
        var orphans: [Set<String>: [[UInt8]: [RowName]]] = [:]

        /// Takes one of the candidates that have an image: of several, the given one if it's among them.
        mutating func takeCandidate(_ image: [UInt8], preferring row: RowName?) -> RowName? {
            if let row, candidates[row] == image {
                candidates[row] = nil
                return row
            }
            while let row = names[image]?.popLast() {
                if candidates.removeValue(forKey: row) != nil { return row }
            }
            return nil
        }

        /// The orphans with these cells, in ascending order of their names; the first ones that have a counterpart by now are
        /// dropped.
        mutating func orphans(without columns: Set<String>, _ cells: [UInt8]) -> ReversedCollection<[RowName]> {
            while let row = orphans[columns]?[cells]?.last, candidates[row] == nil {
                orphans[columns]?[cells]?.removeLast()
            }
            return (orphans[columns]?[cells] ?? []).reversed()
        }
    }

    /// A row of the store.
    private struct Row: Hashable, Comparable {
        var table: String
        var number: Int64

        static func < (lhs: Row, rhs: Row) -> Bool {
            lhs.table == rhs.table ? lhs.number < rhs.number : lhs.table.precedes(rhs.table)
        }
    }

    /// What a row of the store holds outside its key, as the state has it.
    private struct Content {
        var cells: [String: Cell] = [:]
        /// The rows to which columns refer and that have no counterpart: the row itself, and rows that the store doesn't have.
        var others: [String: Row] = [:]
    }

    /// An attempt to find a row's counterpart.
    ///
    /// A row that refers to another one is found after that one: in the same pass over all rows if it comes after it, else
    /// in the next pass. So which of several equal rows gets which counterpart depends on nothing but the rows.
    private struct Attempt: Comparable {
        /// Whether all rows have been found that only refer to others.
        var isLast = false
        var pass = 0
        var row: Row

        static func < (lhs: Attempt, rhs: Attempt) -> Bool {
            guard lhs.isLast == rhs.isLast else { return rhs.isLast }
            return lhs.pass == rhs.pass ? lhs.row < rhs.row : lhs.pass < rhs.pass
        }
    }

    private let store: SQLConnection
    private let state: ReplicaState
    private let numbers: ReplicaNumbers
    /// Whether a row that has a number here is the store's row of that number.
    private let keepsNumbers: Bool
    private var tables: [String: Table] = [:]
    private var storeTables: [String: StoreTable] = [:]
    /// The rows that have a counterpart, by table and the store's number; also rows that are gone on either side.
    private var found: [String: [Int64: RowName]] = [:]
    /// The rows that are gone, and to which a number in the store refers.
    private var gone: Set<RowReference> = []
    /// The rows that refer to a row whose counterpart isn't known yet.
    private var waiting: [Row: [Row]] = [:]

    /// Prepares a search.
    ///
    /// - Parameters:
    ///   - store: A connection in a read transaction.
    ///   - state: The replica, in a write transaction; nothing is pending.
    ///   - keepsNumbers: Whether a row that has a number here is the store's row of that number.
    init(in store: SQLConnection, _ state: ReplicaState, keepsNumbers: Bool) {
        self.store = store
        self.state = state
        self.keepsNumbers = keepsNumbers
        numbers = ReplicaNumbers(state)
    }

    /// Gives the rows of the state the numbers that their counterparts have in the store.
    ///
    /// Unless numbers are kept, those without a counterpart belong to no row afterwards, and neither do those of deleted rows
    /// to which no row with a counterpart refers.
    mutating func match() throws {
        let names = state.schema.tables.keys.filter {
            state.schema.hasIntegerKey($0) && state.schema.numberedTable($0) == $0
        }
        let sorted = names.sorted { $0.precedes($1) }
        for name in sorted { tables[name] = try read(name) }
        var attempts = Heap(
            tables.flatMap { name, table in table.rows.keys.map { Attempt(row: Row(table: name, number: $0)) } }
        )
        while let attempt = attempts.popMin() { attempts.insert(contentsOf: try match(attempt)) }
        for name in sorted {
            if !keepsNumbers {
                for number in (tables[name]?.rows ?? [:]).keys.sorted() { try numbers.release(number, in: name) }
                try numbers.releaseMissing(in: name)
            }
            for (number, row) in (found[name] ?? [:]).sorted(by: { $0.key < $1.key }) {
                try numbers.setNumber(number, of: RowReference(name, row))
            }
        }
    }

    private func read(_ name: String) throws -> Table {
        var table = Table()
        let schema = try state.schema.table(name).schema
        let columns = (schema.key.columns + schema.valueColumns).map(\.quotedName)
        try store.forEach("SELECT \(columns.joined(separator: ", ")) FROM \(name.quotedName)") { values in
            guard let number = values.integer(0), try !keepsNumbers || numbers.name(of: number, in: name) == nil else {
                return
            }
            table.rows[number] = Array(values.dropFirst())
        }
        let condition = keepsNumbers ? "AND number IS NULL" : ""
        let sql = "SELECT name, image FROM rows WHERE tbl = ? \(condition) ORDER BY name DESC"
        try state.db.forEach(sql, [try state.table(name)]) { values in
            let (row, image) = (try values.rowName(0), values.bytes(1) ?? [])
            table.candidates[row] = image
            table.names[image, default: []].append(row)
        }
        return table
    }

    /// Finds the counterpart of a row; returns the attempts of the rows that waited for it.
    private mutating func match(_ attempt: Attempt) throws -> [Attempt] {
        let row = attempt.row
        guard let content = try content(of: row) else { return [] }
        let image = try state.schema.table(row.table).encode(content.cells)
        let known = try numbers.name(of: row.number, in: row.table)
        var counterpart = tables[row.table]?.takeCandidate(image, preferring: known)
        if counterpart == nil, !content.others.isEmpty {
            guard attempt.isLast else { return [Attempt(isLast: true, row: row)] }
            counterpart = try takeOrphan(like: content, of: row, preferring: known)
        }
        guard let counterpart else { return [] }
        found[row.table, default: [:]][row.number] = counterpart
        tables[row.table]?.rows[row.number] = nil
        let rows = waiting.removeValue(forKey: row) ?? []
        return rows.map {
            Attempt(isLast: attempt.isLast, pass: row < $0 ? attempt.pass : attempt.pass + 1, row: $0)
        }
    }

    /// The content of a row; `nil` if it has to wait for the counterpart of a row to which it refers.
    private mutating func content(of row: Row) throws -> Content? {
        let table = try state.schema.table(row.table)
        guard let values = tables[row.table]?.rows[row.number] else { return nil }
        var content = Content()
        for (column, value) in zip(table.schema.valueColumns, values) {
            content.cells[column] = .value(value)
            guard let parent = state.schema.rowTable(of: column, in: row.table),
                let number = value.rowNumber(in: table.affinity(of: column))
            else { continue }
            let parentRow = Row(table: state.schema.numberedTable(parent), number: number)
            guard try parentRow != row && storeTable(parentRow.table).exists(number) else {
                // Any other number refers to no row.
                if parentRow == row || number > 0 { content.others[column] = parentRow }
                continue
            }
            guard let counterpart = try counterpart(of: parentRow) else {
                waiting[parentRow, default: []].append(row)
                return nil
            }
            content.cells[column] = .row(counterpart)
        }
        return content
    }

    // MARK: References to the row itself, and to rows that are gone

    /// Takes a candidate that is equal but for references which lead to the row itself, or to no row of the store.
    ///
    /// - Parameters:
    ///   - content: What a row of the store holds.
    ///   - row: The row.
    ///   - known: The candidate that is taken if it's among several.
    /// - Returns: The candidate; `nil` if there is none.
    /// - Throws: `DatabaseError`.
    private mutating func takeOrphan(
        like content: Content,
        of row: Row,
        preferring known: RowName?
    ) throws -> RowName? {
        let key = try key(of: content.cells, without: content.others, in: row.table)
        let schema = try state.schema.table(row.table)
        // Mostly the row has its number still, and then no other one is read.
        if let known, let image = tables[row.table]?.candidates[known],
            try self.key(of: schema.cells(image), without: content.others, in: row.table) == key,
            try take(known, like: content, of: row)
        {
            return known
        }
        try readOrphans(of: row.table, without: content.others)
        let orphans = tables[row.table]?.orphans(without: Set(content.others.keys), key)
        return try orphans?.first { try take($0, like: content, of: row) }
    }

    /// Takes a row of the state if it's a candidate, and its references lead to the same rows; returns whether it was taken.
    private mutating func take(_ orphan: RowName, like content: Content, of row: Row) throws -> Bool {
        guard let image = tables[row.table]?.candidates[orphan],
            let rows = try rowsGone(for: content, of: row, in: orphan, image)
        else { return false }
        for (row, name) in rows {
            found[row.table, default: [:]][row.number] = name
            gone.insert(RowReference(row.table, name))
        }
        return tables[row.table]?.takeCandidate(image, preferring: orphan) != nil
    }

    /// The encoded cells of a row, but for those of some columns.
    private func key(of cells: [String: Cell], without columns: [String: Row], in table: String) throws -> [UInt8] {
        try state.schema.table(table).encode(cells.merging(columns.mapValues { _ in .null }) { _, null in null })
    }

    /// Reads the rows of the state, by their encoded cells but for those of some columns.
    private mutating func readOrphans(of table: String, without columns: [String: Row]) throws {
        guard tables[table]?.orphans[Set(columns.keys)] == nil else { return }
        let schema = try state.schema.table(table)
        var orphans: [[UInt8]: [RowName]] = [:]
        let sql = "SELECT name, image FROM rows WHERE tbl = ? ORDER BY name DESC"
        try state.db.forEach(sql, [try state.table(table)]) { values in
            let key = try key(of: schema.cells(values.bytes(1) ?? []), without: columns, in: table)
            orphans[key, default: []].append(try values.rowName(0))
        }
        tables[table]?.orphans[Set(columns.keys)] = orphans
    }

    /// The rows that are gone on either side and to which references of a row lead.
    ///
    /// - Parameters:
    ///   - content: What the row holds.
    ///   - row: The row.
    ///   - orphan: A row of the state.
    ///   - image: What it holds.
    /// - Returns: The rows; `nil` if a reference of the row of the state doesn't lead to the same row.
    /// - Throws: `DatabaseError`.
    private func rowsGone(
        for content: Content,
        of row: Row,
        in orphan: RowName,
        _ image: [UInt8]
    ) throws -> [Row: RowName]? {
        let cells = try state.schema.table(row.table).cells(image)
        var gone: [Row: RowName] = [:]
        for (column, other) in content.others where cells[column] != content.cells[column] {
            guard case .row(let name) = cells[column], gone[other] ?? name == name,
                try other == row ? name == orphan : isSame(other, name)
            else { return nil }
            if try state.row(RowReference(other.table, name)) == nil { gone[other] = name }
        }
        return gone
    }

    /// Whether a row that the store doesn't have can be a row of the state, or a row that is gone there too.
    private func isSame(_ row: Row, _ name: RowName) throws -> Bool {
        if let counterpart = try counterpart(of: row) { return counterpart == name }
        guard !keepsNumbers else { return false }
        // A row of the state that the store lacks comes back, and the number leads to it again.
        if let former = try numbers.name(ofMissing: row.number, in: row.table),
            tables[row.table]?.candidates[former] != nil
        {
            return former == name
        }
        let reference = RowReference(row.table, name)
        return try state.row(reference) == nil && !gone.contains(reference)
    }

    /// The state's row that is a row of the store; `nil` if it isn't known (yet).
    private func counterpart(of row: Row) throws -> RowName? {
        if let counterpart = found[row.table]?[row.number] { return counterpart }
        return keepsNumbers ? try numbers.name(of: row.number, in: row.table) : nil
    }

    private mutating func storeTable(_ name: String) throws -> StoreTable {
        if let known = storeTables[name] { return known }
        let table = try StoreTable(name, in: store, state)
        storeTables[name] = table
        return table
    }
}
