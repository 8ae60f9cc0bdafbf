import CSQLite
import GRDB

/// Writes into a store what merging changed: the rows that are pending, as they are in the state.
///
/// First the app's triggers run, so that search indexes and counters follow: row by row, where no other row is in the way.
/// Rows that exchange unique values are written without triggers, because they are neither deleted nor inserted for the app.
/// What a trigger refuses is written without triggers too, and so are synchronized rows that triggers changed. Rows that a
/// constraint refuses even then have to wait.
final class StoreWriter {
    let state: ReplicaState
    let store: SQLConnection
    let pending: ReplicaPending
    private let numbers: ReplicaNumbers
    private var danglingNumbers: DanglingNumbers
    private var tables: [String: StoreTable] = [:]
    private var knownTriggers: StoreTriggers?

    /// Prepares to write.
    ///
    /// - Parameters:
    ///   - store: A connection in a transaction: for ``write()``, to write, with foreign keys off. ``finish()`` uses none.
    ///   - state: The replica, in a transaction: for ``assignNumbers()`` and ``finish()`` a write transaction.
    init(to store: SQLConnection, _ state: ReplicaState) {
        self.store = store
        self.state = state
        pending = ReplicaPending(state)
        numbers = ReplicaNumbers(state)
        danglingNumbers = DanglingNumbers(state)
    }

    func table(_ name: String) throws -> StoreTable {
        if let known = tables[name] { return known }
        let table = try StoreTable(name, in: store, state)
        tables[name] = table
        return table
    }

    typealias Target = ReplicaPending.Difference

    // MARK: Numbers

    /// Gives every row that is about to be written an integer key, in the replica alone; and every row to which it refers, even
    /// if that one was deleted before the store had it.
    func assignNumbers() throws {
        try pending.forEachUnnumbered(assignNumber)
        try pending.forEachDifference { target in
            if let present = target.present { try assignNumbers(ofParentsOf: target.row, present) }
        }
        for row in try pending.counted {
            try assignNumbers(ofParentsOf: row, StoredRow(countedIn: try state.schema.table(row.table)))
        }
    }

    private func assignNumbers(ofParentsOf row: RowReference, _ stored: StoredRow) throws {
        for column in stored.table.columns {
            guard let parent = state.schema.rowTable(of: column, in: row.table),
                case .row(let name) = state.schema.cell(column, of: row, stored)
            else { continue }
            try assignNumber(RowReference(parent, name))
        }
    }

    /// The greatest number that a row gets, unless the user gave it a greater one.
    private static let greatestNumber: Int64 = 1 << 62

    /// Gives a row an integer key if it has none: its author's if that is free, else the next one.
    func assignNumber(_ row: RowReference) throws {
        let table = try table(state.schema.numberedTable(row.table))
        // A row of another table with the same key may have got it just now.
        guard try numbers.number(of: row) == nil else { return }
        if let wish = try numbers.wish(of: row), wish <= Self.greatestNumber, try isFree(wish, table) {
            return try numbers.setNumber(wish, of: row)
        }
        let greatest = max(try numbers.greatest(in: table.name), try table.greatestNumber(), 0)
        var number = greatest
        // After the greatest number SQLite, too, tries others at random.
        repeat {
            number = greatest < Self.greatestNumber ? number + 1 : .random(in: 1...Self.greatestNumber)
        } while try danglingNumbers.contain(number, in: table.name) || numbers.name(of: number, in: table.name) != nil
        try numbers.setNumber(number, of: row)
    }

    /// Whether a new row may get a number: `AUTOINCREMENT` promises that it's no former row's, and to a former row may still be
    /// referred.
    private func isFree(_ number: Int64, _ table: StoreTable) throws -> Bool {
        guard try !danglingNumbers.contain(number, in: table.name) else { return false }
        guard let other = try numbers.name(of: number, in: table.name) else { return true }
        return try table.reusesNumbers && isForgotten(RowReference(table.name, other))
    }

    /// Whether neither the state nor the store has a row, nor a reference to it.
    private func isForgotten(_ row: RowReference) throws -> Bool {
        try state.row(row) == nil && pending.base(row) == nil && !danglingNumbers.refer(to: row)
    }

    // MARK: Writing

    /// Whether everything can be written although an app wrote to the store since it was captured.
    ///
    /// The rows must be as they were captured, and new ones must find their numbers free. What a trigger or `ON CONFLICT
    /// REPLACE` does can only be told from an app's edits in a store that was captured whole, and only a whole search
    /// finds new references to rows that go. A new token alone can always be written.
    func canWrite() throws -> Bool {
        guard try pending.isWritable else { return true }
        guard try pending.counted.isEmpty, try tablesToPutRight(after: pending.writableTables).isEmpty else {
            return false
        }
        var canWrite = true
        try pending.forEachDifference { canWrite = try canWrite && self.canWrite($0) }
        return canWrite
    }

    private func canWrite(_ target: Target) throws -> Bool {
        let table = try table(target.row.table)
        if target.present == nil && !table.table.incoming.isEmpty { return false }
        return try table.storedRow(target.row)?.image == target.former?.image && hasParents(target)
    }

    /// Whether the rows are there, or are written too, to which a row refers that it doesn't refer to yet.
    private func hasParents(_ target: Target) throws -> Bool {
        guard let present = target.present else { return true }
        func cell(_ column: String, in stored: StoredRow) -> Cell { state.schema.cell(column, of: target.row, stored) }
        return try state.schema.table(target.row.table).references.allSatisfy { reference in
            let columns = reference.key.columns
            let cells = columns.map { cell($0, in: present) }
            let isKept = target.former.map { former in columns.map { cell($0, in: former) } == cells } ?? false
            guard !isKept, !cells.contains(.null) else { return true }
            // Only a whole search finds a row by other columns than its key.
            guard let parent = try state.schema.row(reference, cells) else { return false }
            return try pending.isWritten(parent) || table(reference.parent).row(parent) != nil
        }
    }

    /// Writes everything.
    ///
    /// - Returns: What was written.
    /// - Throws: `DatabaseError`; ``RefusedRows`` if constraints refuse some, and then the transaction has to be rolled back.
    func write() throws -> WrittenChanges {
        do {
            return try writeAll()
        } catch let error as RefusedRows {
            throw RefusedRows(reasons: try addingDependents(to: error.reasons))
        }
    }

    private func writeAll() throws -> WrittenChanges {
        var counts: [String: ChangeCounts] = [:]
        var waiting: [Target] = []
        var unsynchronized = UnsynchronizedRows(in: store, state.schema.unsynchronizedReferences)
        let mayRollBack = try mayRollBack()
        try pending.forEachDifference { target in
            try Task.checkCancellation()
            if target.present == nil { try unsynchronized.note(target.row, in: table(target.row.table)) }
            counts[target.row.table, default: ChangeCounts()].add(target.former, target.present)
            if try mayRollBack || !triesWithTriggers(target) { waiting.append(target) }
        }
        var waitingCounts: [RowReference] = []
        let counted = try pending.counted
        let surplus = try mayRollBack ? [:] : rowIdentifiersOfSurplus(of: counted)
        for row in counted {
            if try state.count(row) ?? 0 == 0 { try unsynchronized.note(row, in: table(row.table)) }
            counts[row.table, default: ChangeCounts()].add(try pending.baseCount(row), try state.count(row) ?? 0)
            if try mayRollBack || !attempt({ try writeCount(row, surplus[row]) }) { waitingCounts.append(row) }
        }
        // Where no row is written, no trigger runs and no row is replaced: a new token alone needn't read a table.
        guard !counts.isEmpty else { return WrittenChanges() }
        var changed: Set<String> = []
        if !mayRollBack { (waiting, changed) = try writeBlocked(waiting) }
        let tablesOfWaiting = Set(waiting.map(\.row.table) + waitingCounts.map(\.table))
        changed.formUnion(tablesOfWaiting)
        let tablesToPutRight = try tablesToPutRight(after: counts.keys)
        try withoutTriggers {
            let surplus = try rowIdentifiersOfSurplus(of: waitingCounts)
            try collectRefusals(waitingCounts, row: { $0 }) {
                try deleteSurplus(of: $0, from: pending.baseCount($0), at: surplus[$0])
            }
            try writeTogether(waiting)
            try collectRefusals(waitingCounts, row: { $0 }) { try insertMissing(of: $0, from: pending.baseCount($0)) }
            for table in tablesToPutRight where try putRight(table, mayRollBack: mayRollBack) { changed.insert(table) }
            try unsynchronized.followForeignKeys(presentValues: valuesAfterMerging)
        }
        let stale = try rebuildSearchIndexes(of: changed, among: counts.keys) + indexesOfTriggers(of: tablesOfWaiting)
        return WrittenChanges(counts: counts, staleSearchIndexes: stale)
    }

    /// What columns hold in the row into which a deleted row was merged, or which has a new key; `nil` if there is none.
    private func valuesAfterMerging(of columns: [String], in row: RowReference) throws -> [StoredValue]? {
        guard !state.schema.isCounted(row), let alias = try state.alias(state.schema.aliasKey(of: row)) else {
            return nil
        }
        return try table(row.table).values(of: columns, in: RowReference(row.table, alias.row))
    }

    /// Whether a trigger or a constraint may end the transaction, so that nothing can be tried.
    private func mayRollBack() throws -> Bool {
        let statements = try store.all("SELECT sql FROM sqlite_schema UNION ALL SELECT sql FROM sqlite_temp_schema")
        return statements.contains { SQLTokens($0.text(0) ?? "").tokens.contains { $0.isKeyword("ROLLBACK") } }
    }

    /// The triggers, which are read once.
    var triggers: StoreTriggers {
        get throws {
            if let knownTriggers { return knownTriggers }
            let triggers = try StoreTriggers(of: store)
            knownTriggers = triggers
            return triggers
        }
    }

    /// Tries to write a row while triggers run.
    ///
    /// - Returns: Whether the row is written: a constraint or a trigger may refuse it.
    /// - Throws: `DatabaseError` if no row can be written, as on a full disk.
    func triesWithTriggers(_ target: Target) throws -> Bool {
        // Without triggers, a statement that fails has changed nothing.
        try triggers.exist(on: target.row.table) ? attempt { try write(target) } : tries(target)
    }

    /// Tries to write a row by a single statement.
    ///
    /// - Returns: Whether the row is written: a constraint may refuse it.
    /// - Throws: `DatabaseError` if no row can be written, as on a full disk.
    func tries(_ target: Target) throws -> Bool {
        do {
            try write(target)
            return true
        } catch let error as DatabaseError where error.isOfRow {
            return false
        }
    }

    /// Tries to write rows or a search index in a savepoint.
    ///
    /// - Returns: Whether they are written: a constraint or a trigger may refuse that.
    /// - Throws: `DatabaseError` if nothing can be written, as on a full disk.
    func attempt(_ body: () throws -> Void) throws -> Bool {
        try store.execute("SAVEPOINT row")
        do {
            try body()
            try store.execute("RELEASE row")
            return true
        } catch  where error is RefusedRows || (error as? DatabaseError)?.isOfRowOrSearchIndex == true {
            try store.execute("ROLLBACK TO row")
            try store.execute("RELEASE row")
            return false
        }
    }

    private func write(_ target: Target) throws {
        let table = try table(target.row.table)
        switch (target.former, target.present) {
        case (nil, nil): break
        case (_?, nil): try table.delete(target.row)
        case (nil, let present?): try table.insert(target.row, present)
        case (let former?, let present?):
            try table.update(target.row, present, writing: present.changedColumns(from: former), number: target.number)
        }
    }

    /// Writes rows that are in each other's way: all go, then all that stay come.
    func writeTogether(_ targets: [Target]) throws {
        // A trigger may have inserted a row that the store didn't have.
        for target in targets { try table(target.row.table).delete(target.row) }
        try collectRefusals(targets, row: \.row) { target in
            guard let present = target.present else { return }
            try table(target.row.table).insert(target.row, present)
        }
    }

    private func writeCount(_ row: RowReference, _ surplus: [Int64]?) throws {
        let former = try pending.baseCount(row)
        try deleteSurplus(of: row, from: former, at: surplus)
        try insertMissing(of: row, from: former)
    }

    private func rowIdentifiersOfSurplus(of rows: [RowReference]) throws -> [RowReference: [Int64]] {
        try rowIdentifiersOfSurplus(of: rows.map { ($0, try pending.baseCount($0)) })
    }

    /// Finds the rows without a key that the store has too many of, in tables with many of them.
    ///
    /// SQLite finds a few rows faster, if there is an index even without reading the table.
    ///
    /// - Parameter rows: Rows, and how often the store has them.
    /// - Returns: The rowids of surplus rows.
    /// - Throws: `DatabaseError`.
    func rowIdentifiersOfSurplus(of rows: [(row: RowReference, former: Int)]) throws -> [RowReference: [Int64]] {
        var surplus: [String: [RowReference: Int]] = [:]
        for (row, former) in rows {
            let count = former - (try state.count(row) ?? 0)
            if count > 0 { surplus[row.table, default: [:]][row] = count }
        }
        return try surplus.reduce(into: [:]) { found, item in
            guard item.value.values.reduce(0, +) > Self.greatestSearchCount else { return }
            found.merge(try table(item.key).rowIdentifiers(of: item.value)) { first, _ in first }
        }
    }

    /// How many rows are searched one by one: each search may read the whole table.
    private static let greatestSearchCount = 8

    /// Deletes as many of equal rows without a key as the store has too many.
    ///
    /// They may be in the way of other rows. So all surplus rows go before any missing row comes.
    ///
    /// - Parameters:
    ///   - row: The row.
    ///   - former: How often the store has it.
    ///   - identifiers: The rowids of the surplus, if they are known.
    /// - Throws: `DatabaseError`.
    func deleteSurplus(of row: RowReference, from former: Int, at identifiers: [Int64]?) throws {
        var identifiers = (identifiers ?? [])[...]
        for _ in stride(from: former, to: try state.count(row) ?? 0, by: -1) {
            try table(row.table).deleteOne(row, at: identifiers.popFirst())
        }
    }

    /// Inserts as many of equal rows without a key as the store has too few.
    func insertMissing(of row: RowReference, from former: Int) throws {
        for _ in stride(from: former, to: try state.count(row) ?? 0, by: 1) { try table(row.table).insertCounted(row) }
    }

    // MARK: Afterwards

    /// Records, in the replica alone, that the store is at the state.
    func finish() throws {
        let isWritten = try pending.isWritable
        try pending.finish()
        try ReplicaRefusals(state).removeSettled()
        if isWritten { try releaseDanglingNumbers() }
    }

    /// Takes from forgotten rows the numbers that references hold for no row: they come from devices that never had such a row.
    private func releaseDanglingNumbers() throws {
        for table in state.schema.tables.keys where state.schema.hasIntegerKey(table) {
            for number in try danglingNumbers.all(in: table) {
                guard let name = try numbers.name(ofMissing: number, in: table),
                    try isForgotten(RowReference(table, name))
                else { continue }
                try numbers.release(number, in: table)
            }
        }
    }
}

/// What a write changed in a store.
package struct WrittenChanges: Hashable, Sendable {
    /// How many rows were inserted, updated and deleted, by table.
    package var counts: [String: ChangeCounts] = [:]
    /// The virtual tables that are out of date: they can't be rebuilt here, or the triggers that fill them didn't run.
    package var staleSearchIndexes: [String] = []
}

/// How many rows of a table changed.
public struct ChangeCounts: Hashable, Sendable {
    /// Rows that are new.
    public var inserted = 0
    /// Rows that were changed.
    public var updated = 0
    /// Rows that are gone.
    public var deleted = 0

    /// Creates counts.
    public init(inserted: Int = 0, updated: Int = 0, deleted: Int = 0) {
        self.inserted = inserted
        self.updated = updated
        self.deleted = deleted
    }

    mutating func add(_ former: Int, _ present: Int) {
        inserted += max(0, present - former)
        deleted += max(0, former - present)
    }

    mutating func add(_ former: StoredRow?, _ present: StoredRow?) {
        switch (former, present) {
        case (nil, nil): break
        case (nil, _?): inserted += 1
        case (_?, nil): deleted += 1
        case (_?, _?): updated += 1
        }
    }
}
