/// A value by which rows are found: the values of a unique index, or of a reference.
///
/// Two keys are equal where SQLite takes the values for equal, whatever their bytes.
package struct LookupKey: Hashable, Sendable {
    /// What the values are of.
    package enum Kind: Hashable, Sendable {
        /// A unique index, by its position among the table's.
        case unique(Int)
        /// All columns of a unique index but the last, which is a position in a list.
        case list(Int)
        /// The columns of a reference, by its position among the table's.
        case child(Int)
        /// The columns to which a reference leads, in ascending order of their names.
        case parent([String])
    }

    package var table: String
    package var kind: Kind
    package var cells: [Cell]
}

extension Cell {
    /// The representative of all cells that SQLite takes for equal to this one under a collation.
    func representative(_ collation: Collation) -> Cell {
        switch self {
        case .value(.text(let bytes)):
            switch collation {
            case .binary: self
            case .noCase: .value(.text(bytes.map { (65...90).contains($0) ? $0 + 32 : $0 }))
            case .trailingSpaces: .value(.text(Array(bytes.reversed().drop { $0 == 32 }.reversed())))
            }
        case .value(.real(let bitPattern)):
            Int64(exactly: Double(bitPattern: bitPattern)).map { .value(.integer($0)) } ?? self
        case .value, .row: self
        }
    }

    /// The cell as SQLite converts it before it compares it with a column of an affinity.
    func converted(to affinity: Affinity) -> Cell {
        switch (affinity, self) {
        case (.integer, .value(.text(let bytes))), (.numeric, .value(.text(let bytes))),
            (.real, .value(.text(let bytes))):
            let text = String(decoding: bytes, as: UTF8.self)
            return Int64(text).map { .value(.integer($0)) } ?? Double(text).map { .value(.real($0)) } ?? self
        case (.text, .value(.integer(let integer))): return .value(.text("\(integer)"))
        default: return self
        }
    }
}

extension FoldSchema {
    /// All keys by which a row is found.
    package func lookupKeys(of row: RowReference, _ state: RowState) throws -> [LookupKey] {
        let table = try table(row.table)
        var keys: [LookupKey] = []
        for index in table.uniques.indices {
            if let key = try uniqueKey(index, of: row, state) { keys.append(key) }
            if let key = listKey(index, of: row, state) { keys.append(key) }
        }
        for index in table.references.indices {
            if let key = childKey(ReferenceID(table: row.table, index: index), of: row, state) { keys.append(key) }
        }
        return keys + parentKeys(of: row, state)
    }

    /// The values that no other row may have; `nil` if the index doesn't have the row, or a value is `NULL`.
    func uniqueKey(_ index: Int, of row: RowReference, _ state: RowState) throws -> LookupKey? {
        let table = try table(row.table)
        let unique = table.uniques[index].index
        let cells: [Cell]?
        if unique.condition == nil, let columns = unique.columns {
            cells = columns.map { cell($0, of: row, state) }
        } else {
            cells = try evaluator.values(of: unique, in: table.schema, self.cells(of: row, state))
        }
        guard let cells, !cells.contains(.null) else { return nil }
        return LookupKey(
            table: row.table,
            kind: .unique(index),
            cells: zip(cells, unique.terms).map { $0.representative($1.collation) }
        )
    }

    /// The list in which a row has a position; `nil` if the index isn't one of positions.
    func listKey(_ index: Int, of row: RowReference, _ state: RowState) -> LookupKey? {
        guard let table = tables[row.table], table.uniques[index].isPosition,
            case let unique = table.uniques[index].index, unique.condition == nil, let columns = unique.columns
        else { return nil }
        let cells = columns.dropLast().map { cell($0, of: row, state) }
        guard !cells.contains(.null) else { return nil }
        return LookupKey(
            table: row.table,
            kind: .list(index),
            cells: zip(cells, unique.terms).map { $0.representative($1.collation) }
        )
    }

    /// The values of a reference as its parent's columns compare them; `nil` if a value is `NULL`.
    func childKey(_ id: ReferenceID, of row: RowReference, _ state: RowState) -> LookupKey? {
        guard let reference = tables[id.table]?.references[id.index] else { return nil }
        let cells = reference.key.columns.map { cell($0, of: row, state) }
        guard !cells.contains(.null) else { return nil }
        return LookupKey(
            table: row.table,
            kind: .child(id.index),
            cells: zip(cells, reference.parentColumns).map {
                $0.converted(to: $1.affinity).representative($1.collation)
            }
        )
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
    package func tombKeys(of row: RowReference, _ state: RowState) -> [LookupKey] {
        let references = tables[row.table]?.references.indices ?? 0..<0
        return parentKeys(of: row, state)
            + references.compactMap { childKey(ReferenceID(table: row.table, index: $0), of: row, state) }
    }

    /// The keys by which references find a row.
    package func parentKeys(of row: RowReference, _ state: RowState) -> [LookupKey] {
        guard let table = tables[row.table], !table.incoming.isEmpty else { return [] }
        var groups = table.referencedColumns
        if case .none = table.schema.key {} else { groups.append(table.schema.key.columns) }
        return groups.compactMap { columns in
            let cells = columns.map { column in
                cell(column, of: row, state).representative(table.schema.column(column)?.collation ?? .binary)
            }
            guard !cells.contains(.null) else { return nil }
            return LookupKey(table: row.table, kind: .parent(columns), cells: cells)
        }
    }

    /// The key of a reference that leads to a row.
    func childKey(_ id: ReferenceID, leadingTo row: RowReference, _ state: RowState) -> LookupKey? {
        guard let reference = tables[id.table]?.references[id.index] else { return nil }
        let cells = reference.parentColumns.map { cell($0.name, of: row, state).representative($0.collation) }
        guard !cells.contains(.null) else { return nil }
        return LookupKey(table: id.table, kind: .child(id.index), cells: cells)
    }
}
