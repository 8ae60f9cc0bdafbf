/// The fold of one set in progress.
struct SetFold {
    let header: SyncChangeSet.Header
    var work: FoldWorkspace
    var conflicts: [Conflict] = []
    /// What the set did to rows.
    var traces: [RowReference: Trace] = [:]
    /// The values by which references find the rows that the set itself writes.
    var ownKeys: Set<LookupKey> = []
    /// The rows with values that the set changed, as they were.
    var formerRows: [(row: RowReference, state: StoredRow)] = []
    /// Whether all edits are written, and constraints are checked.
    var isRepairing = false
    /// The constraints to check: those of what repairs write, and the `CHECK` constraints of rows with references that were led.
    var queue = RepairQueue()
    /// The rows that went with a row of this set: by a consequence of its delete, or by a repair.
    var companions: [RowReference: Set<RowReference>] = [:]
    /// The rows that came back from their tombs, each once.
    var broughtBack: Set<RowReference> = []
    /// The schema that the set was captured in, if it's another one.
    var author: SchemaDescription?
    /// What columns hold by default that only the author's schema has, by table.
    var addedDefaults: [String: [String: Cell]] = [:]
    /// What columns referred to in the schemas of earlier sets that the set's author hadn't seen.
    var unseenRowColumns: [RowColumns] = []
    /// The constraints that hold.
    var constraints: FoldConstraints

    /// What a set did to a row.
    struct Trace {
        /// Where the row comes from.
        enum Origin {
            case before(StoredRow?)
            case inserted
            case broughtBack(StoredTomb)
        }

        var origin: Origin
        /// Whether the row refers to another row than before, because that one was merged or has another value.
        var isMoved = false
        /// The name that the row had before the set, if it has another one now.
        var formerName: RowName?
        /// The columns that edits and repairs wrote, other than by following a reference.
        var updated: Set<String> = []
        /// All columns that the set wrote.
        var written: Set<String> = []
        /// The columns whose references led to no row in the author's store.
        var dangling: Set<String> = []
        /// What the first change of the set wrote, by column.
        var firstWrites: [String: Cell] = [:]
        /// The inserters of rows that were merged into this one.
        var mergedInserters: Set<SetID> = []
        /// How often the row was repaired because of each constraint.
        var repairs: [String: Int] = [:]

        /// The row before the set; a merge or a changed key may have given it another name.
        var image: StoredRow? { if case .before(let image) = origin { image } else { nil } }

        /// Of rows that are merged, the row with the lowest rank stays: an earlier one goes first.
        var rank: Int {
            switch origin {
            case .before: isMoved ? 1 : 0
            case .inserted: 2
            case .broughtBack: 3
            }
        }
    }

    init(_ header: SyncChangeSet.Header, _ work: FoldWorkspace) {
        self.header = header
        self.work = work
        constraints = FoldConstraints(of: nil, in: work.schema)
    }

    var schema: FoldSchema { work.schema }

    /// Makes room for as many rows as a set changes.
    mutating func reserveCapacity(_ count: Int) {
        traces.reserveCapacity(count)
        work.reserveCapacity(count)
    }

    /// Whether the set's author knew another set.
    func knows(_ set: SetID) -> Bool { set == header.id || header.hasSeen(set) }

    /// Whether the set's author knew that a row was deleted; other replicas may have forgotten the row by now.
    func hasSeen(_ tomb: StoredTomb) -> Bool { tomb.deleters.contains(where: header.hasSeen) }

    // MARK: Rows

    /// Records what a row was before the set, when the set first touches it.
    mutating func trace(_ row: RowReference) throws {
        guard traces[row] == nil else { return }
        traces[row] = Trace(origin: .before(try work.row(row)))
    }

    /// Writes a row with a key.
    ///
    /// - Parameters:
    ///   - row: The row.
    ///   - state: Its new state.
    ///   - columns: The columns that change; all of them if the row is new.
    /// - Throws: What the state throws.
    mutating func put(_ row: RowReference, _ state: StoredRow, writing columns: Set<String>) throws {
        try trace(row)
        if let former = try work.row(row) {
            try replace(row, former, by: state)
        } else {
            try work.write(row, state)
            try work.write(row, tomb: nil)
        }
        guard !columns.isEmpty else { return }
        traces[row]?.written.formUnion(columns)
        try queue(row, columns)
    }

    /// Writes a row that exists and that was traced.
    mutating func replace(_ row: RowReference, _ former: StoredRow, by state: StoredRow) throws {
        guard former != state else { return }
        let lost = try work.write(row, state)
        try leaveAliases(of: row, former, at: row)
        if lost.contains(where: \.leadsReferences) { try queueChildren(of: row, former) }
    }

    /// Removes a row without leaving a tomb, and lets its children be checked.
    mutating func remove(_ row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        if schema.isCounted(row) {
            try trace(row)
            try work.setCount(row, 0)
        } else {
            let repairs = traces[row]?.repairs ?? [:]
            traces[row] = Trace(origin: .before(nil), repairs: repairs)
            try work.write(row, nil)
        }
        try queueChildren(of: row, state)
    }

    /// Turns a row into a tomb; rows without a key have none.
    mutating func bury(_ row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        try remove(row)
        guard !schema.isCounted(row) else { return }
        try work.write(row, tomb: StoredTomb(row: state, deleters: [header.id]))
    }

    /// All columns of a table.
    func allColumns(_ table: String) -> Set<String> { Set(schema.tables[table]?.columns ?? []) }

    // MARK: References

    /// Lets the rows be checked that refer to what a row had.
    private mutating func queueChildren(of row: RowReference, _ state: StoredRow) throws {
        for id in try schema.table(row.table).incoming {
            guard let key = schema.childKey(id, leadingTo: row, state) else { continue }
            for child in try work.rows(with: key) { queueReference(child, id) }
        }
    }

    /// The key of a reference's parent if no row has it; `nil` if the reference leads to a row, or to nothing.
    mutating func missingParent(
        _ id: FoldSchema.ReferenceID,
        of row: RowReference,
        _ state: StoredRow
    ) throws -> LookupKey? {
        guard let child = schema.childKey(id, of: row, state), !isLeftAlone(id, row, state),
            let key = schema.parentKey(id, child), try work.rows(with: key).isEmpty
        else { return nil }
        return key
    }

    /// Whether a reference to an integer key holds what is no row's number, as 0 or -1 for none.
    private func isLeftAlone(_ id: FoldSchema.ReferenceID, _ row: RowReference, _ state: StoredRow) -> Bool {
        schema.tables[id.table]?.references[id.index].key.columns.contains { column in
            guard schema.rowTable(of: column, in: row.table) != nil,
                case .value(let value) = schema.cell(column, of: row, state), !value.isNull
            else { return false }
            let number = value.rowNumber(in: schema.tables[row.table]?.affinity(of: column) ?? .blob)
            return number.map { $0 <= 0 } ?? true
        } ?? true
    }

    /// Whether a reference led to no row in its author's store too.
    func isMarked(_ id: FoldSchema.ReferenceID, _ row: RowReference) -> Bool {
        guard let trace = traces[row], let reference = schema.tables[id.table]?.references[id.index] else {
            return false
        }
        return !trace.dangling.isDisjoint(with: reference.key.columns)
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

    /// The cells of a row that is lost: for a row without a key, all of them.
    func lostCells(of row: RowReference, _ state: StoredRow) -> [String: Cell] {
        schema.isCounted(row) ? schema.cells(of: row, state) : state.cells
    }

    /// Logs a row that is lost; equal rows without a key once for each of them.
    mutating func logLost(_ rule: Conflict.Rule, _ row: RowReference, _ state: StoredRow) throws {
        let count = schema.isCounted(row) ? try work.count(row) : 1
        for _ in 0..<count { log(rule, row, lost: lostCells(of: row, state)) }
    }
}
