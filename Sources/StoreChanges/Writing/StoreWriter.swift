import GRDB

/// Writes into a store what merging changed: the rows that are pending, as they are in the state.
struct StoreWriter {
    private let state: ReplicaState
    private let store: SQLConnection
    private let pending: ReplicaPending
    private let numbers: ReplicaNumbers

    /// Prepares to write.
    ///
    /// - Parameters:
    ///   - store: A connection in a write transaction, with foreign keys off.
    ///   - state: The replica, in a write transaction.
    init(to store: SQLConnection, _ state: ReplicaState) {
        self.store = store
        self.state = state
        pending = ReplicaPending(state)
        numbers = ReplicaNumbers(state)
    }

    /// A row to write.
    private struct Target {
        var row: RowReference
        /// As the store has it, and as it will be; `nil` where there is none.
        var former: [String: Cell]?
        var present: [String: Cell]?
    }

    /// Writes everything, and records that the store is at the state.
    ///
    /// - Returns: How many rows were inserted, updated and deleted, by table.
    func write() throws -> [String: ChangeCounts] {
        let targets = try pending.rows.sorted().map { row in
            Target(row: row, former: try pending.base(row), present: try state.row(row)?.cells)
        }
        for target in targets where target.present != nil { try assignNumber(target.row) }
        var counts: [String: ChangeCounts] = [:]
        for target in targets { counts[target.row.table, default: ChangeCounts()].add(target.former, target.present) }
        var waiting: [Target] = []
        for target in targets where !(try attempt { try write(target) }) { waiting.append(target) }
        try writeTogether(waiting)
        for row in try pending.counted { try writeCount(row, &counts) }
        try finish(targets)
        return counts
    }

    // MARK: Numbers

    /// Gives a row an integer key if it has none: its author's if that is free, else the next one.
    ///
    /// A row of a table without integer keys has none.
    private func assignNumber(_ row: RowReference) throws {
        let table = try StoreTable(state.schema.numberedTable(row.table), in: store, state)
        guard table.integerKey != nil, try numbers.number(of: row) == nil else { return }
        if let wish = try numbers.wish(of: row), wish <= 1 << 62, try isFree(wish, table) {
            return try numbers.setNumber(wish, of: row)
        }
        var greatest = try numbers.greatest(in: row.table)
        let sequence = try? store.first("SELECT seq FROM sqlite_sequence WHERE name = ?", [.text(row.table)])?.integer(
            0
        )
        greatest = max(greatest, sequence.flatMap { $0 } ?? 0)
        try numbers.setNumber(max(greatest, 0) + 1, of: row)
    }

    private func isFree(_ number: Int64, _ table: StoreTable) throws -> Bool {
        guard try !table.exists(number) else { return false }
        guard let other = try numbers.name(of: number, in: table.name) else { return true }
        let row = RowReference(table.name, other)
        return try state.row(row) == nil && pending.base(row) == nil
    }

    // MARK: Rows

    /// Tries to write a row in a savepoint.
    private func attempt(_ body: () throws -> Void) throws -> Bool {
        try store.execute("SAVEPOINT row")
        do {
            try body()
            try store.execute("RELEASE row")
            return true
        } catch is DatabaseError {
            try store.execute("ROLLBACK TO row")
            try store.execute("RELEASE row")
            return false
        }
    }

    private func write(_ target: Target) throws {
        let table = try StoreTable(target.row.table, in: store, state)
        switch (target.former, target.present) {
        case (nil, nil): break
        case (_?, nil): try table.delete(target.row)
        case (nil, let present?): try table.insert(target.row, present)
        case (let former?, let present?): try table.update(target.row, present.filter { former[$0.key] != $0.value })
        }
    }

    /// Writes rows that are in each other's way: all go, then all that stay come.
    private func writeTogether(_ targets: [Target]) throws {
        for target in targets where target.former != nil {
            try StoreTable(target.row.table, in: store, state).delete(target.row)
        }
        for target in targets {
            guard let present = target.present else { continue }
            try StoreTable(target.row.table, in: store, state).insert(target.row, present)
        }
    }

    private func writeCount(_ row: RowReference, _ counts: inout [String: ChangeCounts]) throws {
        let table = try StoreTable(row.table, in: store, state)
        let (former, present) = (try pending.baseCount(row), try state.count(row) ?? 0)
        for _ in former..<max(former, present) {
            try table.insert(row, [:])
            counts[row.table, default: ChangeCounts()].inserted += 1
        }
        for _ in present..<max(former, present) {
            try table.deleteOne(row)
            counts[row.table, default: ChangeCounts()].deleted += 1
        }
    }

    // MARK: Afterwards

    private func finish(_ targets: [Target]) throws {
        try state.db.execute("DELETE FROM replaced")
        for target in targets {
            guard let former = target.former else { continue }
            try state.db.execute(
                "INSERT INTO replaced (tbl, name, image) VALUES (?, ?, ?)",
                try state.key(target.row) + [.blob(state.schema.encode(former, of: target.row.table))]
            )
        }
        try state.db.execute("DELETE FROM pending")
        try state.db.execute("DELETE FROM pending_counts")
    }
}

/// How many rows of a table changed.
public struct ChangeCounts: Hashable, Sendable {
    /// Rows that are new.
    public var inserted = 0
    /// Rows that were changed.
    public var updated = 0
    /// Rows that are gone.
    public var deleted = 0

    mutating func add(_ former: [String: Cell]?, _ present: [String: Cell]?) {
        switch (former, present) {
        case (nil, nil): break
        case (nil, _?): inserted += 1
        case (_?, nil): deleted += 1
        case (_?, _?): updated += 1
        }
    }
}
