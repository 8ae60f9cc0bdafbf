/// Applies change sets to a state, one after another in the total order.
///
/// The state that results is the same on every device, whatever the order in which the sets arrived: a set that belongs
/// further back is applied after the later ones were undone.
package struct Fold {
    private let schema: FoldSchema

    package init(_ schema: FoldSchema) { self.schema = schema }

    /// Applies a set.
    ///
    /// A set is applied whole: deletes, then updates, then inserts, each in the order of tables and names; then what
    /// violates a constraint is repaired.
    ///
    /// - Parameters:
    ///   - set: The set, greater in the total order than all that the state contains.
    ///   - base: The state.
    /// - Returns: What changes in the state, and what was overwritten or left out.
    /// - Throws: ``StoreChangesError``, and what `base` throws.
    package func apply(_ set: SyncChangeSet, to base: some StateReader) throws -> (StateDelta, [Conflict]) {
        var fold = SetFold(set.header, FoldWorkspace(base, schema))
        let changes = try fold.resolve(set.changes)
        let moves = try fold.referencesToChangedValues(changes)
        try fold.delete(changes)
        try fold.update(changes)
        try fold.insert(changes)
        try fold.follow(moves)
        try fold.repair()
        return (fold.work.delta, fold.conflicts)
    }
}

/// The fold of one set in progress.
struct SetFold {
    let header: SyncChangeSet.Header
    var work: FoldWorkspace
    var conflicts: [Conflict] = []
    /// What the set did to rows.
    var traces: [RowReference: Trace] = [:]
    /// The constraints to check.
    var queue = RepairQueue()
    /// How often each row was repaired because of each constraint.
    var repairs: [Repair: Int] = [:]
    /// The rows that went with a row of this set: by a consequence of its delete, or by a repair.
    var companions: [RowReference: Set<RowReference>] = [:]
    /// Whether all edits are written, and constraints are checked.
    var isRepairing = false
    /// The rows that came back from their tombs, each once.
    var broughtBack: Set<RowReference> = []

    /// What a set did to a row.
    struct Trace {
        var standing = FoldWorkspace.Standing.standing
        /// The row before the set; a merge or a changed key may have given it another name.
        var image: RowState?
        /// The columns that the set wrote, repairs included.
        var written: Set<String> = []
        /// The columns that an update of the set wrote.
        var updated: Set<String> = []
        /// The columns whose references led to no row in the author's store.
        var dangling: Set<String> = []
    }

    /// A row that is repaired because of a constraint.
    struct Repair: Hashable {
        var row: RowReference
        var constraint: String
    }

    init(_ header: SyncChangeSet.Header, _ work: FoldWorkspace) {
        self.header = header
        self.work = work
    }

    var schema: FoldSchema { work.schema }

    // MARK: Rows

    /// Records what a row was before the set, when the set first touches it.
    mutating func trace(_ row: RowReference) throws {
        guard traces[row] == nil else { return }
        traces[row] = Trace(image: try work.row(row))
    }

    /// Writes a row with a key.
    ///
    /// - Parameters:
    ///   - row: The row.
    ///   - state: Its new state.
    ///   - columns: The columns that change; all of them if the row is new.
    /// - Throws: What the state throws.
    mutating func put(_ row: RowReference, _ state: RowState, writing columns: Set<String>) throws {
        try trace(row)
        let isNew = try work.row(row) == nil
        try work.write(row, state)
        if isNew {
            try work.write(row, tomb: nil)
            try work.write(schema.aliasKey(of: row), nil)
        }
        for columns in try schema.table(row.table).referencedColumns {
            if let key = valueKey(columns, of: row, state) { try work.write(key, nil) }
        }
        traces[row]?.written.formUnion(columns)
        try queue(row, columns)
    }

    /// The values of unique columns of a row, by which references find it; `nil` if one is `NULL`.
    func valueKey(_ columns: [String], of row: RowReference, _ state: RowState) -> AliasKey? {
        let cells = columns.map { schema.cell($0, of: row, state) }
        return cells.contains(.null) ? nil : AliasKey(table: row.table, columns: columns, cells: cells)
    }

    /// Removes a row without leaving a tomb, and lets its children be checked.
    mutating func remove(_ row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        try trace(row)
        if schema.isCounted(row) {
            try work.setCount(row, 0)
        } else {
            try work.write(row, nil)
        }
        for child in try children(of: row, state) { queueReference(child.row, child.reference) }
    }

    /// Turns a row into a tomb.
    mutating func bury(_ row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        try remove(row)
        guard !schema.isCounted(row) else { return }
        try work.write(row, tomb: Tomb(row: state, deleters: [header.id]))
    }

    /// All columns of a table.
    func allColumns(_ table: String) -> Set<String> { Set(schema.tables[table]?.columns ?? []) }

    // MARK: References

    /// A row that refers to another one.
    struct Child {
        var row: RowReference
        var reference: FoldSchema.ReferenceID
    }

    /// The rows that refer to a row.
    mutating func children(of row: RowReference, _ state: RowState) throws -> [Child] {
        var children: [Child] = []
        for id in try schema.table(row.table).incoming {
            guard let key = schema.childKey(id, leadingTo: row, state) else { continue }
            for child in try work.rows(with: key) { children.append(Child(row: child, reference: id)) }
        }
        return children
    }

    /// The rows to which a reference leads: at most one, unless its columns aren't unique.
    mutating func parents(_ id: FoldSchema.ReferenceID, of row: RowReference, _ state: RowState) throws
        -> [RowReference]
    {
        guard let child = schema.childKey(id, of: row, state), let key = schema.parentKey(id, child) else { return [] }
        return try work.rows(with: key)
    }

    // MARK: Conflicts

    mutating func log(
        _ rule: Conflict.Rule,
        _ row: RowReference,
        lost: [String: Cell] = [:],
        kept: [String: Cell] = [:]
    ) {
        conflicts.append(Conflict(rule, row, lost: lost, kept: kept, by: header.id))
    }
}
