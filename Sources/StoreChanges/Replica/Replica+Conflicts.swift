import GRDB

/// The conflict log, and putting back what it has.
extension Replica {
    /// What merging overwrote or left out, after an entry of a number, the oldest first.
    package func conflicts(after number: Int64 = 0) throws -> [LoggedConflict] {
        var conflicts: [LoggedConflict] = []
        try forEachConflict(after: number) { conflicts.append($0) }
        return conflicts
    }

    func forEachConflict(after number: Int64 = 0, _ body: (LoggedConflict) throws -> Void) throws {
        let restored = try restoredConflicts()
        try db.forEach("\(Self.selectConflicts) WHERE number > ? ORDER BY number", [.integer(number)]) { values in
            guard var entry = try conflict(values) else { return }
            entry.isRestored = restored.contains(entry.digest)
            try body(entry)
        }
    }

    /// What merging a set overwrote or left out.
    func conflicts(of set: SetID) throws -> Set<Conflict> {
        let entries = try db.all("\(Self.selectConflicts) WHERE client = ? AND sequence = ?", set.values)
        return Set(try entries.compactMap { try conflict($0)?.conflict })
    }

    func lastConflict() throws -> Int64 { try db.first("SELECT max(number) FROM conflicts")?.integer(0) ?? 0 }

    func conflictCount(after number: Int64) throws -> Int {
        Int(try db.first("SELECT count(*) FROM conflicts WHERE number > ?", [.integer(number)])?.integer(0) ?? 0)
    }

    private static let selectConflicts = """
        SELECT number, rule, tbl, name, lost, kept, client, sequence, stamp, other_client, other_sequence, other_stamp
        FROM conflicts
        """

    private func conflict(_ values: [StoredValue]) throws -> LoggedConflict? {
        guard let number = values.integer(0), let rule = values.text(1).flatMap(Conflict.Rule.init),
            let author = try author(values, at: 6)
        else { return nil }
        let conflict = Conflict(
            rule,
            RowReference(state.tableName(values.integer(2)), try values.rowName(3)),
            lost: try [String: Cell](decoding: values.bytes(4) ?? []),
            kept: try [String: Cell](decoding: values.bytes(5) ?? []),
            by: author.set
        )
        return LoggedConflict(number: number, conflict: conflict, author: author, other: try self.author(values, at: 9))
    }

    private func author(_ values: [StoredValue], at index: Int) throws -> ChangeAuthor? {
        guard let client = values.text(index) else { return nil }
        let set = SetID(ClientID(rawValue: client), try values.number(index + 1))
        return ChangeAuthor(set, at: Stamp(rawValue: try values.number(index + 2)))
    }

    /// Writes into the store what a conflict lost, as an edit of the user that the next capture finds.
    ///
    /// Values that the row has got since the conflict are replaced, and logged.
    ///
    /// - Parameters:
    ///   - number: The number of the entry.
    ///   - store: The store, in a write transaction with the app's triggers and foreign keys.
    ///   - time: The present time, in milliseconds since 1970.
    /// - Returns: The row, by which the next capture knows it; `nil` if it has no integer key, or was merged with another row.
    /// - Throws: ``StoreChangesError`` with `conflictNotFound`, or `cannotRestore` if the store can't hold what was lost any
    ///   more; ``MissingSets`` if nothing can be captured yet; `DatabaseError` if the store's constraints refuse it.
    func restore(_ number: Int64, in store: Database, at time: UInt64) throws -> RowWrittenAgain? {
        let sql = "\(Self.selectConflicts) WHERE number = ?"
        guard let logged = try db.first(sql, [.integer(number)]).flatMap(conflict), logged.conflict.hasLoss else {
            throw StoreChangesError(
                .conflictNotFound,
                "There is no conflict \(number) that lost anything. storesync conflicts STORE lists them."
            )
        }
        let entry = logged.conflict
        guard state.schema.has(entry.row) else {
            throw StoreChangesError(cannotRestore: number, "the store's tables can't hold such a row any more")
        }
        // A row that can't be captured at once would get another name.
        try log.judgement().refuseMissingSets(nextHeader(seen: log.integrated(), at: time))
        let table = try StoreTable(entry.row.table, in: SQLConnection(store, isObserved: true), state)
        let isCounted = state.schema.isCounted(entry.row)
        // The number of a row that is gone may be a newer row's.
        let isInStore = try isCounted || ReplicaPending(state).base(entry.row) != nil
        let present = isInStore ? try table.row(entry.row) : nil
        if let present, !isCounted {
            try writeAgain(logged, over: present, in: table, at: time)
        } else {
            guard try present == nil || !restoredConflicts().contains(logged.digest) else {
                throw StoreChangesError(
                    cannotRestore: number,
                    "it was restored already, and \(table.name) has the row"
                )
            }
            try insertAgain(logged, in: table)
        }
        try noteRestored(logged)
        // The name of a row that was merged leads to the other one.
        guard state.schema.hasIntegerKey(table.name), try state.alias(state.schema.aliasKey(of: entry.row)) == nil,
            let key = try ReplicaNumbers(state).number(of: entry.row)
        else {
            return nil
        }
        return RowWrittenAgain(row: entry.row, number: key)
    }

    /// Writes what a conflict lost into the row, which is there.
    private func writeAgain(
        _ logged: LoggedConflict,
        over present: StoreTable.Row,
        in table: StoreTable,
        at time: UInt64
    ) throws {
        let (number, entry) = (logged.number, logged.conflict)
        let lost = entry.lost.filter { table.table.valueColumns.contains($0.key) }
        guard !lost.isEmpty else { throw StoreChangesError(cannotRestore: number, hasNoColumnIn: table) }
        let stored = StoredRow(table.table, present.cells.merging(lost) { $1 })
        let restored = RestoredRow(number: number, row: entry.row, stored: stored, columns: Set(lost.keys))
        try refuseMissingParents(of: restored, in: table)
        try logReplaced(present, by: entry, at: time)
        try table.update(entry.row, stored, writing: table.table.valueColumns.filter { lost[$0] != nil })
        try refuseDanglingReferences(of: restored, in: table)
    }

    /// Inserts the row that a conflict lost.
    ///
    /// - Parameters:
    ///   - logged: The entry.
    ///   - table: The row's table.
    /// - Throws: ``StoreChangesError`` with `cannotRestore`; `DatabaseError`.
    private func insertAgain(_ logged: LoggedConflict, in table: StoreTable) throws {
        let (number, row) = (logged.number, logged.conflict.row)
        let lost = logged.conflict.lost.filter { table.table.columns.contains($0.key) }
        // A row that has no cells outside its key is lost without any.
        guard !lost.isEmpty || logged.conflict.lost.isEmpty else {
            throw StoreChangesError(cannotRestore: number, hasNoColumnIn: table)
        }
        let stored = state.schema.isCounted(row) ? StoredRow(countedIn: table.table) : StoredRow(table.table, lost)
        let restored = RestoredRow(number: number, row: row, stored: stored, columns: Set(table.table.columns))
        try refuseMissingParents(of: restored, in: table)
        // Its former number may be another row's by now.
        if state.schema.hasIntegerKey(row.table) { try StoreWriter(to: table.store, state).assignNumber(row) }
        try table.insert(row, stored)
        try refuseDanglingReferences(of: restored, in: table)
    }

    /// A row as an entry is about to restore it.
    private struct RestoredRow {
        /// The number of the entry.
        var number: Int64
        var row: RowReference
        /// What the row will hold.
        var stored: StoredRow
        /// The columns that are written.
        var columns: Set<String>
    }

    /// Refuses to restore a row that would refer to rows that are gone, and says which entry has one of them.
    ///
    /// SQLite tells of the others, but has only numbers, which newer rows may have got.
    private func refuseMissingParents(of restored: RestoredRow, in table: StoreTable) throws {
        let (number, columns) = (restored.number, restored.columns)
        for (column, parent) in try table.missingParents(of: restored.row, restored.stored, among: columns) {
            if let first = try entryThatLost(parent) {
                throw StoreChangesError(
                    .cannotRestore,
                    """
                    Conflict \(number) can't be restored yet: the row is gone to which \(table.name).\(column) referred. \
                    Restore conflict \(first) first, which has that row.
                    """
                )
            }
            guard case .numbered = parent.row else { continue }
            throw StoreChangesError(cannotRestore: number, "the row is gone to which \(table.name).\(column) referred")
        }
    }

    /// Refuses to restore a row that refers to no row: SQLite doesn't check the references that only the document's rules name.
    private func refuseDanglingReferences(of restored: RestoredRow, in table: StoreTable) throws {
        let dangling = try table.danglingColumns(restored.row, restored.stored, among: restored.columns)
        guard !dangling.isEmpty else { return }
        let names = dangling.sorted { $0.precedes($1) }.map { "\(table.name).\($0)" }.joined(separator: ", ")
        throw StoreChangesError(
            .cannotRestore,
            """
            Conflict \(restored.number) can't be restored as it is: no row exists to which \(names) would refer. Insert that row, then \
            restore it again.
            """
        )
    }

    /// The number of the entry that has most of a row that is gone; `nil` if none has any of it.
    private func entryThatLost(_ row: RowReference) throws -> Int64? {
        let sql = "\(Self.selectConflicts) WHERE tbl = ? AND name = ? ORDER BY number"
        let entries = try db.all(sql, try state.key(row)).compactMap { try conflict($0) }
        return entries.filter { $0.conflict.hasLoss && $0.conflict.kept.isEmpty }
            .max { $0.conflict.lost.count < $1.conflict.lost.count }?.number
    }

    // MARK: Numbers

    /// Gives the entries that a former replica of this device has, too, the numbers and marks that they have there: by these
    /// numbers the user knows them.
    ///
    /// All other entries get later numbers.
    ///
    /// - Parameter former: The former replica.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func takeConflictNumbers(of former: Replica) throws {
        var known: [SetDigest: ArraySlice<Int64>] = [:]
        try former.forEachConflict { known[$0.digest, default: []].append($0.number) }
        var marks = try ReplicaFact.restored.read(former.db) ?? []
        let restored = try restoredConflicts()
        var last = try former.log.lastConflictNumber()
        var numbers: [(former: Int64, present: Int64)] = []
        // An entry that only a newer version of the app can read is there, too.
        try db.forEach("\(Self.selectConflicts) ORDER BY number") { values in
            guard let number = values.integer(0) else { return }
            let digest = try conflict(values)?.digest
            if let digest, let present = known[digest]?.popFirst() {
                numbers.append((number, present))
                return
            }
            last += 1
            numbers.append((number, last))
            if let digest, known[digest] == nil, restored.contains(digest) { marks += digest.rawValue }
        }
        try log.setConflictNumbers(numbers, last: last)
        try ReplicaFact.restored.write(marks, db)
    }

    // MARK: Restored entries

    /// The digests of the entries whose losses the user has restored.
    private func restoredConflicts() throws -> Set<SetDigest> {
        let bytes = try ReplicaFact.restored.read(db) ?? []
        let length = SetDigest.byteCount
        // A checkpoint of another device may have brought them, so their length is checked.
        let starts = stride(from: 0, through: bytes.count - length, by: length)
        return Set(starts.map { SetDigest(rawValue: Array(bytes[$0..<$0 + length])) })
    }

    private func noteRestored(_ entry: LoggedConflict) throws {
        guard try !restoredConflicts().contains(entry.digest) else { return }
        try ReplicaFact.restored.write((ReplicaFact.restored.read(db) ?? []) + entry.digest.rawValue, db)
    }

    /// Logs the values of a row that are neither what a conflict kept nor what it lost, and that restoring it replaces.
    private func logReplaced(_ present: StoreTable.Row, by entry: Conflict, at time: UInt64) throws {
        let replaced = present.cells.filter { column, cell in
            entry.lost[column].map { $0 != cell && entry.kept[column] != cell } ?? false
        }
        guard !replaced.isEmpty else { return }
        let kept = entry.lost.filter { replaced[$0.key] != nil }
        try logDecision(.replacedByRestoring, on: entry.row, lost: replaced, kept: kept, at: time)
    }

    /// Logs what the user decided to give up of a row, and what is there instead.
    func logDecision(
        _ rule: Conflict.Rule,
        on row: RowReference,
        lost: [String: Cell],
        kept: [String: Cell],
        at time: UInt64
    ) throws {
        // No set has this number, so that no undoing removes the entry.
        try log.insert(Conflict(rule, row, lost: lost, kept: kept, by: SetID(client, 0)), Stamp(rawValue: time), nil)
    }
}

extension StoreChangesError {
    init(cannotRestore number: Int64, _ reason: String, cause: (any Error)? = nil) {
        self.init(
            .cannotRestore,
            """
            Conflict \(number) can't be restored: \(reason). storesync conflicts STORE shows what it lost: enter that in the \
            app instead.
            """,
            cause: cause
        )
    }

    fileprivate init(cannotRestore number: Int64, hasNoColumnIn table: StoreTable) {
        self.init(cannotRestore: number, "\(table.name) has no column outside its key for it")
    }
}

extension LoggedConflict {
    /// Tells the entry from all others: a set that is integrated again gives it another number.
    fileprivate var digest: SetDigest {
        var writer = ByteWriter()
        writer.text(conflict.rule.rawValue)
        writer.set(conflict.set)
        writer.number(author.time.rawValue)
        writer.text(conflict.row.table)
        for part in [conflict.row.row.encoded, conflict.lost.encoded, conflict.kept.encoded] { writer.counted(part) }
        return SetDigest(of: writer.bytes)
    }
}
