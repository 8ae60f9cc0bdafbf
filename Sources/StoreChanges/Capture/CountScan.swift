/// How often each row without a key occurs in a table of the store, held against how often it did.
///
/// As in ``BaseScan``, the replica's next row is tried first.
struct CountScan {
    /// A row that occurs more or less often than it did.
    struct Difference {
        var name: RowName
        var base: Int
        var count: Int
    }

    private let state: ReplicaState
    private let table: String
    private let scan: SQLStatement
    private let lookup: SQLStatement
    private let identifiers: ClosedRange<Int64>
    /// Where the scan starts, after the row that was found last.
    private var start: Int64
    private var isStarted = false
    /// Whether the scan is at the row that is tried next.
    private var isAtRow = false
    /// The rows that were found, and how often beyond the first time.
    private var found = RowMarks()
    private var more: [Int64: Int] = [:]
    /// The rows that the replica doesn't have.
    private var new: [[UInt8]: Int] = [:]

    init(_ table: String, _ state: ReplicaState) throws {
        self.state = state
        self.table = table
        identifiers = try state.identifiers(of: table)
        start = identifiers.lowerBound
        scan = try state.db.prepareApart("SELECT id, name FROM counts WHERE id BETWEEN ? AND ? ORDER BY id")
        lookup = try state.db.prepareApart("SELECT id FROM counts WHERE tbl = ? AND name = ? AND digest = ?")
    }

    /// Counts a row of the store.
    mutating func add(_ name: [UInt8]) throws {
        if !isStarted {
            try scan.bind([.integer(start), .integer(identifiers.upperBound)])
            isStarted = true
            isAtRow = try scan.step()
        }
        if isAtRow, scan.holds(name, 1), let id = scan.integer(0) {
            count(id)
            isAtRow = try scan.step()
            return
        }
        guard let id = try identifier(name) else { return new[name, default: 0] += 1 }
        count(id)
        start = id + 1
        isStarted = false
    }

    private func identifier(_ name: [UInt8]) throws -> Int64? {
        try lookup.firstInteger([state.table(table), .blob(name), ReplicaState.digest(name)])
    }

    private mutating func count(_ id: Int64) {
        if !found.insert(id) { more[id, default: 0] += 1 }
    }

    /// Calls `body` with the rows that occur more or less often than in the base.
    func forEachDifference(_ body: (Difference) throws -> Void) throws {
        let rows = try state.db.prepareApart(
            """
            SELECT c.id, ifnull(p.count, c.count) FROM counts c
            LEFT JOIN pending_counts p ON p.tbl = c.tbl AND p.name = c.name WHERE c.id BETWEEN ? AND ?
            """
        )
        try rows.bind(state.identifierBounds(of: table))
        while try rows.step() {
            guard let id = rows.integer(0), let base = rows.integer(1) else { continue }
            let count = found.contains(id) ? 1 + more[id, default: 0] : 0
            guard count != base else { continue }
            let name = try state.db.first("SELECT name FROM counts WHERE id = ?", [.integer(id)])?.bytes(0) ?? []
            try body(Difference(name: try RowName(decoding: name), base: Int(base), count: count))
        }
        var bases: [[UInt8]: Int] = [:]
        let pending = try state.db.all("SELECT name, count FROM pending_counts WHERE tbl = ?", [state.table(table)])
        for values in pending {
            let name = values.bytes(0) ?? []
            if try identifier(name) == nil { bases[name] = values.integer(1).map { Int($0) } }
        }
        for name in Set(new.keys).union(bases.keys).sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            let (count, base) = (new[name] ?? 0, bases[name] ?? 0)
            guard count != base else { continue }
            try body(Difference(name: try RowName(decoding: name), base: base, count: count))
        }
    }
}
