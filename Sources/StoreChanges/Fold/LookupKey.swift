import GRDBSQLite

/// A value by which rows are found: the values of a unique index, or of a reference.
///
/// Two keys are equal where SQLite takes the values for equal, whatever their bytes.
package struct LookupKey: Hashable, Sendable {
    /// What the values are of.
    package enum Kind: Hashable, Sendable {
        /// A unique index, by its position among the table's.
        case unique(Int)
        /// All values of a unique index but the last, which is a position in a list: how the keys of its rows begin.
        case list(Int)
        /// The columns of a reference, by its position among the table's.
        case child(Int)
        /// The columns to which a reference leads, in ascending order of their names.
        case parent([String])
    }

    package var table: String
    package var kind: Kind
    package var cells: [Cell]

    /// Whether references find a row by the key.
    var leadsReferences: Bool { if case .parent = kind { true } else { false } }
}

extension Cell {
    /// The representative of all cells that SQLite takes for equal to this one under a collation.
    func representative(_ collation: Collation) -> Cell {
        switch self {
        case .value(.text(let bytes)):
            switch collation {
            case .binary: self
            case .noCase: .value(.text(Self.withoutCase(bytes)))
            case .trailingSpaces: .value(.text(Array(bytes.reversed().drop { $0 == 32 }.reversed())))
            }
        case .value(.real(let bitPattern)):
            Int64(exactly: Double(bitPattern: bitPattern)).map { .value(.integer($0)) } ?? self
        case .value, .row: self
        }
    }

    /// The representative of text that SQLite compares without regard to case: only as far as a NUL, and by its length.
    private static func withoutCase(_ bytes: [UInt8]) -> [UInt8] {
        let text = bytes.prefix { $0 != 0 }
        let rest = repeatElement(0 as UInt8, count: bytes.count - text.count)
        return text.map { (65...90).contains($0) ? $0 + 32 : $0 } + rest
    }

    /// The cell as SQLite converts it before it compares it with a column of an affinity.
    func converted(to affinity: Affinity) -> Cell {
        switch (affinity, self) {
        case (.integer, .value(.text(let bytes))), (.numeric, .value(.text(let bytes))),
            (.real, .value(.text(let bytes))):
            return Self.number(bytes).map(Cell.value) ?? self
        case (.text, .value(.integer(let integer))): return .value(.text("\(integer)"))
        case (.text, .value(.real(let bitPattern))): return .value(.text(Self.text(Double(bitPattern: bitPattern))))
        default: return self
        }
    }

    /// The text that SQLite makes of a floating-point number.
    private static func text(_ number: Double) -> String {
        let text = withVaList([number]) { sqlite3_vmprintf("%!.15g", $0) }
        defer { sqlite3_free(text) }
        return text.map { String(cString: $0) } ?? "\(number)"
    }

    /// The number that text looks like to SQLite: without names of numbers, and without hexadecimal digits.
    private static func number(_ bytes: [UInt8]) -> StoredValue? {
        let spaces = Set(" \t\n\u{0B}\u{0C}\r".utf8)
        let trimmed = bytes.drop(while: spaces.contains).reversed().drop(while: spaces.contains).reversed()
        guard trimmed.allSatisfy(Set("+-.0123456789eE".utf8).contains) else { return nil }
        let text = String(decoding: trimmed, as: UTF8.self)
        return Int64(text).map { .integer($0) } ?? Double(text).map { .real($0) }
    }
}

/// How a key follows from the columns of a row: nothing is evaluated, so it can be made from bytes too.
struct LookupKeyPlan {
    let kind: LookupKey.Kind
    let columns: [Column]

    /// A column of a key, and how its cells are compared.
    struct Column {
        let name: String
        /// What the cell is converted to before; `nil` if it's compared as it is.
        var affinity: Affinity?
        let collation: Collation

        /// The representative of all cells that are equal in the key.
        func representative(_ cell: Cell) -> Cell {
            (affinity.map(cell.converted) ?? cell).representative(collation)
        }
    }
}

/// How the keys of a table's rows are made.
struct LookupKeyPlans {
    /// For each unique index; `nil` where SQLite evaluates an expression or a condition.
    let uniques: [LookupKeyPlan?]
    /// For each reference.
    let children: [LookupKeyPlan]
    /// For the columns to which references lead.
    let parents: [LookupKeyPlan]

    /// The plans of all keys.
    let all: [LookupKeyPlan]
    /// The positions of the unique indexes that SQLite evaluates.
    let evaluatedUniques: [Int]
    /// The positions of the unique indexes that end with a position in a list.
    let lists: [Int]

    init(
        uniques: [LookupKeyPlan?] = [],
        lists: [Int] = [],
        children: [LookupKeyPlan] = [],
        parents: [LookupKeyPlan] = []
    ) {
        self.uniques = uniques
        self.lists = lists
        self.children = children
        self.parents = parents
        all = uniques.compactMap(\.self) + children + parents
        evaluatedUniques = uniques.indices.filter { uniques[$0] == nil }
    }
}

extension FoldSchema {
    /// What a column of a row holds.
    typealias Cells = (String) throws -> Cell

    // MARK: Plans

    /// Makes the plans of a table whose references are known.
    func plans(of table: Table) -> LookupKeyPlans {
        LookupKeyPlans(
            uniques: table.uniques.indices.map { uniquePlan($0, in: table) },
            lists: table.uniques.indices.filter { table.uniques[$0].isPosition },
            children: table.references.indices.map { childPlan($0, in: table) },
            parents: parentPlans(of: table)
        )
    }

    private func uniquePlan(_ index: Int, in table: Table) -> LookupKeyPlan? {
        let unique = table.uniques[index].index
        guard unique.condition == nil, let columns = unique.columns, columns.allSatisfy(table.columns.contains) else {
            return nil
        }
        return LookupKeyPlan(kind: .unique(index), columns: plan(columns, unique.terms))
    }

    private func plan(_ columns: some Sequence<String>, _ terms: [UniqueIndex.Term]) -> [LookupKeyPlan.Column] {
        zip(columns, terms).map { LookupKeyPlan.Column(name: $0, collation: $1.collation) }
    }

    private func childPlan(_ index: Int, in table: Table) -> LookupKeyPlan {
        let reference = table.references[index]
        let columns = zip(reference.key.columns, reference.parentColumns).map {
            LookupKeyPlan.Column(name: $0, affinity: $1.affinity, collation: $1.collation)
        }
        return LookupKeyPlan(kind: .child(index), columns: columns)
    }

    private func parentPlans(of table: Table) -> [LookupKeyPlan] {
        guard !table.incoming.isEmpty else { return [] }
        var groups = table.referencedColumns
        if case .none = table.schema.key {} else { groups.append(table.schema.key.columns) }
        return groups.map { columns in
            let plan = columns.map {
                LookupKeyPlan.Column(name: $0, collation: table.schema.column($0)?.collation ?? .binary)
            }
            return LookupKeyPlan(kind: .parent(columns), columns: plan)
        }
    }

    /// The key of a row that holds these cells; `nil` if one is `NULL`.
    private func key(_ plan: LookupKeyPlan, in table: Table, _ cells: Cells) rethrows -> LookupKey? {
        let values = try plan.columns.map { try cells($0.name) }
        guard !values.contains(.null) else { return nil }
        return LookupKey(
            table: table.schema.name,
            kind: plan.kind,
            cells: zip(plan.columns, values).map { $0.representative($1) }
        )
    }

    // MARK: Keys

    /// All keys by which a row is found.
    func lookupKeys(of row: RowReference, _ state: StoredRow) throws -> [LookupKey] {
        let table = try table(row.table)
        let cells = { self.cell($0, of: row, state) }
        return try table.plans.all.compactMap { key($0, in: table, cells) }
            + table.plans.evaluatedUniques.compactMap { try uniqueKey($0, in: table, cells) }
            + table.plans.lists.compactMap { try listKey($0, of: row, state) }
    }

    /// The keys by which a row isn't found any more, and those by which it's found from now on, after it changed.
    func changedKeys(
        of row: RowReference,
        from former: StoredRow?,
        to state: StoredRow?
    ) throws -> (lost: [LookupKey], gained: [LookupKey]) {
        guard let former, let state else {
            return (
                try former.map { try lookupKeys(of: row, $0) } ?? [],
                try state.map { try lookupKeys(of: row, $0) } ?? []
            )
        }
        var (lost, gained): ([LookupKey], [LookupKey]) = ([], [])
        func compare(_ first: LookupKey?, _ second: LookupKey?) {
            guard first != second else { return }
            if let first { lost.append(first) }
            if let second { gained.append(second) }
        }
        let table = state.table
        guard former.image != state.image else { return (lost, gained) }
        func isSame(_ plan: LookupKeyPlan) -> Bool { plan.columns.allSatisfy { state.holdsSame($0.name, as: former) } }
        for plan in table.plans.all where !isSame(plan) {
            compare(
                key(plan, in: table) { cell($0, of: row, former) },
                key(plan, in: table) { cell($0, of: row, state) }
            )
        }
        for index in table.plans.evaluatedUniques {
            compare(try uniqueKey(index, of: row, former), try uniqueKey(index, of: row, state))
        }
        for index in table.plans.lists where table.plans.uniques[index].map(isSame) != true {
            compare(try listKey(index, of: row, former), try listKey(index, of: row, state))
        }
        return (lost, gained)
    }

    /// The name of which a key consists: a row with an integer key is found by its name already.
    func name(in key: LookupKey) -> RowName? {
        guard case .parent(let columns) = key.kind, columns.count == 1, case .row(let name) = key.cells[0],
            hasIntegerKey(key.table), isKey(columns[0], of: key.table)
        else { return nil }
        return name
    }

    /// The values that no other row may have; `nil` if the index doesn't have the row, or a value is `NULL`.
    func uniqueKey(_ index: Int, of row: RowReference, _ state: StoredRow) throws -> LookupKey? {
        try uniqueKey(index, in: try table(row.table)) { cell($0, of: row, state) }
    }

    /// The values that no other row may have than the row that holds these cells.
    func uniqueKey(_ index: Int, in table: Table, _ cells: Cells) throws -> LookupKey? {
        if let plan = table.plans.uniques[index] { return try key(plan, in: table, cells) }
        let unique = table.uniques[index].index
        let all = try Dictionary(uniqueKeysWithValues: table.columns.map { ($0, try cells($0)) })
        guard let values = try evaluator.values(of: unique, in: table.schema, all), !values.contains(.null) else {
            return nil
        }
        return LookupKey(
            table: table.schema.name,
            kind: .unique(index),
            cells: zip(values, unique.terms).map { $0.representative($1.collation) }
        )
    }

    /// The list in which a row has a position by an index of positions; `nil` if the index doesn't have the row.
    func listKey(_ index: Int, of row: RowReference, _ state: StoredRow) throws -> LookupKey? {
        try uniqueKey(index, of: row, state).map {
            LookupKey(table: $0.table, kind: .list(index), cells: Array($0.cells.dropLast()))
        }
    }

    /// The values of a reference as its parent's columns compare them; `nil` if a value is `NULL`.
    func childKey(_ id: ReferenceID, of row: RowReference, _ state: StoredRow) -> LookupKey? {
        guard let table = tables[id.table] else { return nil }
        return key(table.plans.children[id.index], in: table) { cell($0, of: row, state) }
    }

    /// The key by which the row is found to which the values of a reference's columns lead.
    func parentKey(_ id: ReferenceID, values: [Cell]) -> LookupKey? {
        guard let reference = tables[id.table]?.references[id.index] else { return nil }
        let cells = zip(values, reference.parentColumns).map {
            $0.converted(to: $1.affinity).representative($1.collation)
        }
        return parentKey(id, LookupKey(table: id.table, kind: .child(id.index), cells: cells))
    }

    /// The key by which the row is found to which a reference leads.
    func parentKey(_ id: ReferenceID, _ childKey: LookupKey) -> LookupKey? {
        guard let reference = tables[id.table]?.references[id.index] else { return nil }
        let sorted = zip(reference.key.parentColumns, childKey.cells).sorted { $0.0.precedes($1.0) }
        return LookupKey(table: reference.parent, kind: .parent(sorted.map(\.0)), cells: sorted.map(\.1))
    }

    /// The keys by which a deleted row is found: by references to it, and by its own references.
    func tombKeys(of row: RowReference, _ state: StoredRow) -> [LookupKey] {
        let references = tables[row.table]?.references.indices ?? 0..<0
        return parentKeys(of: row, state)
            + references.compactMap { childKey(ReferenceID(table: row.table, index: $0), of: row, state) }
    }

    /// The keys by which references find a row.
    func parentKeys(of row: RowReference, _ state: StoredRow) -> [LookupKey] {
        guard let table = tables[row.table] else { return [] }
        return table.plans.parents.compactMap { key($0, in: table) { cell($0, of: row, state) } }
    }

    /// The key of a reference that leads to a row.
    func childKey(_ id: ReferenceID, leadingTo row: RowReference, _ state: StoredRow) -> LookupKey? {
        guard let reference = tables[id.table]?.references[id.index] else { return nil }
        let cells = reference.parentColumns.map { cell($0.name, of: row, state).representative($0.collation) }
        guard !cells.contains(.null) else { return nil }
        return LookupKey(table: id.table, kind: .child(id.index), cells: cells)
    }
}
