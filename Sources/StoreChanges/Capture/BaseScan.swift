/// The rows of a table as the store had them when it was last seen, found in the order in which the store has them now.
///
/// The replica has most rows in the store's order. So the next row of the replica is tried first, and a row is looked
/// up by its name only where the two orders differ: where rows were inserted, deleted or moved.
struct BaseScan {
    /// A row of the store as it was.
    struct Row {
        var name: RowName
        /// The encoded cells; `nil` if the store didn't have the row.
        var image: [UInt8]?
    }

    private let state: ReplicaState
    private let table: String
    private let tableID: Int64
    private let identifiers: ClosedRange<Int64>
    private let scan: SQLStatement
    private let lookup: SQLStatement
    /// Whether the scan is at the row that is tried next.
    private var isAtRow = false
    /// Where the scan starts, after the row that was found last.
    private var start: Int64
    private var isStarted = false
    /// Whether the next row has to be looked up by its name.
    private var isElsewhere = false
    private var found = RowMarks()
    /// How many rows were found that the store had.
    private(set) var foundCount = 0
    /// Whether every row of the scan was found as soon as it was met.
    private var isComplete = true
    /// Whether rows of the table are pending.
    private let hasPending: Bool
    /// The names of the pending rows that the store had, that the state doesn't have, and that weren't found.
    private var missingRemoved: Set<[UInt8]> = []

    init(_ table: String, _ state: ReplicaState) throws {
        self.state = state
        self.table = table
        tableID = try state.identifier(of: table)
        identifiers = try state.identifiers(of: table)
        start = identifiers.lowerBound
        scan = try state.db.prepareApart(
            "SELECT id, number, name, image FROM rows WHERE id BETWEEN ? AND ? ORDER BY id"
        )
        lookup = try state.db.prepareApart("SELECT id, image FROM rows WHERE tbl = ? AND name = ?")
        hasPending = try state.db.first("SELECT 1 FROM pending WHERE tbl = ? LIMIT 1", [state.table(table)]) != nil
        guard hasPending else { return }
        try state.db.forEach(
            """
            SELECT name FROM pending p WHERE tbl = ? AND image IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM rows r WHERE r.tbl = p.tbl AND r.name = p.name)
            """,
            [try state.table(table)]
        ) { missingRemoved.insert($0.bytes(0) ?? []) }
    }

    /// Whether a row of the store is as it was; most calls end here.
    mutating func isUnchanged(_ row: borrowing StoreScan) throws -> Bool {
        guard !isElsewhere else { return false }
        if !isStarted {
            try scan.bind([.integer(start), .integer(identifiers.upperBound)])
            isStarted = true
            isAtRow = try scan.step()
        }
        guard isAtRow else { return false }
        if let number = row.number {
            guard scan.integer(1) == number else { return false }
        } else {
            guard scan.holds(row.name, 2) else { return false }
        }
        guard try holds(row.image) else { return false }
        if let id = scan.integer(0) { found.insert(id) }
        foundCount += 1
        isAtRow = try scan.step()
        return true
    }

    /// Whether the store had the row of the scan, and with these cells.
    private func holds(_ image: [UInt8]) throws -> Bool {
        guard hasPending, let name = scan.blob(2) else { return scan.holds(image, 3) }
        let statement = try state.statements.pending.bind(RowKey(table: tableID, name: name))
        defer { statement.reset() }
        return try statement.step() ? statement.holds(image, 0) : scan.holds(image, 3)
    }

    /// Finds a row by its name.
    mutating func row(_ name: RowName) throws -> Row {
        let key = RowKey(table: tableID, name: name.encoded)
        try lookup.bind(key)
        defer { lookup.reset() }
        let id = try lookup.step() ? lookup.integer(0) : nil
        if let id {
            found.insert(id)
            isElsewhere = false
            if isAtRow, scan.integer(0) == id {
                isAtRow = try scan.step()
            } else {
                // The store is in another order here: the next row is looked for after this one.
                isComplete = false
                isStarted = false
                start = id + 1
            }
        }
        var image = id == nil ? nil : lookup.blob(1)
        if let pending = try ReplicaPending(state).image(key) {
            missingRemoved.remove(key.name)
            image = pending
        }
        if image != nil { foundCount += 1 }
        return Row(name: name, image: image)
    }

    // MARK: Rows that are gone

    /// Calls `body` with the rows that the store had, and that weren't found.
    func forEachMissing(_ body: (Row) throws -> Void) throws {
        for name in missingRemoved.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            try body(missingRow(RowName(decoding: name)))
        }
        guard !isComplete || !isStarted || isAtRow else { return }
        // Without the images, an index has all that is needed.
        let rows = try state.db.prepareApart("SELECT id, name FROM rows WHERE tbl = ?")
        try rows.bind([state.table(table)])
        while try rows.step() {
            guard let id = rows.integer(0), !found.contains(id) else { continue }
            try body(missingRow(RowName(decoding: rows.blob(1) ?? [])))
        }
    }

    private func missingRow(_ name: RowName) throws -> Row {
        Row(name: name, image: try ReplicaPending(state).base(RowReference(table, name)))
    }

    // MARK: Ranges

    /// Continues with the rows of another range.
    mutating func leap() { isElsewhere = true }

    /// Calls `body` with the rows that the store had with integer keys of a range, and that weren't found.
    ///
    /// - Parameters:
    ///   - range: The integer keys.
    ///   - count: How many rows of the range the store has, new rows included.
    ///   - former: The rows whose integer keys other rows have got since, by number.
    ///   - body: Gets a row.
    /// - Throws: `DatabaseError`, and what `body` throws.
    func forEachMissing(
        in range: ClosedRange<Int64>,
        present count: Int,
        former: [Int64: RowName],
        _ body: (Row) throws -> Void
    ) throws {
        let numbers = ReplicaNumbers(state)
        // Each row that the store has here has a number of the range. If no other row has one, none is missing: the usual case.
        if try numbers.count(in: range, of: table) != count {
            try numbers.forEachName(of: range, in: table) { name in
                if try isMissing(name) { try body(missingRow(name)) }
            }
        }
        for (_, name) in former.filter({ range.contains($0.key) }).sorted(by: { $0.key < $1.key }) {
            if try isMissing(name) { try body(missingRow(name)) }
        }
    }

    private func isMissing(_ name: RowName) throws -> Bool {
        let key = RowKey(table: tableID, name: name.encoded)
        guard !missingRemoved.contains(key.name) else { return true }
        try lookup.bind(key)
        defer { lookup.reset() }
        return try lookup.step() && lookup.integer(0).map { !found.contains($0) } ?? false
    }
}
