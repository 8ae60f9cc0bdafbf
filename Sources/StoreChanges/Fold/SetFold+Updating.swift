// Rules 1 and 3: updates write their columns, unless the row is deleted.

extension SetFold {
    /// Writes the cells of updates; the other cells of the rows stay.
    ///
    /// Example: One device changed a note's title, another one its color, and neither knew of the other's edit: the
    /// note has both. If both changed the title, the later set counts, and the former title is logged.
    mutating func update(_ changes: [ResolvedChange]) throws {
        for change in changes {
            guard case .update(let cells) = change.edit else { continue }
            guard let state = try work.row(change.row), !schema.isCounted(change.row) else {
                log(.editOfDeleted, change.row, lost: cells.mapValues(\.new))
                continue
            }
            try write(try writes(of: cells, change.row, state), to: change.row, state)
        }
    }

    /// A cell that a change writes.
    struct Write {
        var cell: Cell
        /// Whether the author knew the value that goes.
        var isKnown: Bool
        var isDangling = false
    }

    private mutating func writes(
        of cells: [String: UpdatedCell],
        _ row: RowReference,
        _ state: StoredRow
    ) throws -> [String: Write] {
        guard try work.leadsReferences(of: state.table) else { return writes(of: cells, state) }
        let current = schema.cells(of: row, state)
        let given = current.merging(cells.mapValues(\.new)) { $1 }
        var new = given
        try lead(&new, in: row.table, except: Set(cells.filter(\.value.isDangling).keys))
        if new != given { queue.insert(row) }
        var old = current.merging(cells.compactMapValues(\.old.cell)) { $1 }
        try lead(&old, in: row.table)
        var writes = writes(of: cells, state)
        for (column, goes) in state.cells {
            let written = new[column] ?? .null
            guard let cell = cells[column] else {
                // A reference of several columns can be led away in columns that the change doesn't have.
                if written != goes { writes[column] = Write(cell: written, isKnown: true) }
                continue
            }
            writes[column]?.cell = written
            // The author may have known the value by a former name.
            if !cell.putsBack, cell.old.cell != nil, old[column] == goes { writes[column]?.isKnown = true }
        }
        return writes
    }

    /// What a change writes if no reference is led.
    private func writes(of cells: [String: UpdatedCell], _ state: StoredRow) -> [String: Write] {
        var writes: [String: Write] = [:]
        for (column, cell) in cells {
            guard let goes = state.cell(column) else { continue }
            let isKnown = cell.old.describes(goes) && !cell.putsBack
            writes[column] = Write(cell: cell.new, isKnown: isKnown, isDangling: cell.isDangling)
        }
        return writes
    }

    /// Writes cells of a change; of two changes of a set that write one cell differently, the first counts.
    mutating func write(_ writes: [String: Write], to row: RowReference, _ former: StoredRow) throws {
        let outcome = traces[row, default: Trace(origin: .before(former))]
            .record(writes, over: former, isMigration: header.isMigration)
        if let second = outcome.second { log(.sameCellTwice, row, lost: second.lost, kept: second.kept) }
        if let outdated = outcome.outdated { log(.migratedValue, row, lost: outdated.lost, kept: outdated.kept) }
        if let overwritten = outcome.overwritten {
            log(.overwritten, row, lost: overwritten.lost, kept: overwritten.kept)
        }
        var state = former
        state.write(outcome.new)
        if !former.table.incoming.isEmpty { formerRows.append((row, former)) }
        try replace(row, former, by: state)
    }

    /// Lets references follow the values that the set changed.
    ///
    /// Only after all edits: two rows may have exchanged their values.
    mutating func followChangedValues() throws {
        for (row, state) in formerRows { try moveReferences(from: row, state, to: row) }
        formerRows = []
    }
}

extension SetFold.Trace {
    /// What became of the cells that a change writes.
    fileprivate struct Outcome {
        /// Cells that are lost, and what stays in their place.
        typealias Loss = (lost: [String: Cell], kept: [String: Cell])

        /// What is written.
        var new: [String: Cell] = [:]
        /// What an earlier change of the set has written otherwise.
        var second: Loss?
        /// What is captured together with a change of the schema, and was changed meanwhile.
        var outdated: Loss?
        /// What the author didn't know.
        var overwritten: Loss?
    }

    /// Records what a change writes.
    fileprivate mutating func record(
        _ writes: [String: SetFold.Write],
        over former: StoredRow,
        isMigration: Bool
    ) -> Outcome {
        var outcome = Outcome()
        func add(_ column: String, _ lost: Cell, _ kept: Cell, to loss: inout Outcome.Loss?) {
            loss = loss ?? ([:], [:])
            loss?.lost[column] = lost
            loss?.kept[column] = kept
        }
        let outdated = isMigration ? outdatedColumns(writes, over: former) : []
        for (column, write) in writes {
            if let earlier = firstWrites[column] {
                if earlier != write.cell { add(column, write.cell, earlier, to: &outcome.second) }
                continue
            }
            firstWrites[column] = write.cell
            updated.insert(column)
            written.insert(column)
            if write.isDangling { dangling.insert(column) } else { dangling.remove(column) }
            guard let goes = former.cell(column), goes != write.cell else { continue }
            if outdated.contains(column) {
                add(column, write.cell, goes, to: &outcome.outdated)
                continue
            }
            outcome.new[column] = write.cell
            if !write.isKnown { add(column, goes, write.cell, to: &outcome.overwritten) }
        }
        return outcome
    }

    /// The columns that an update of the app would change, but that were changed meanwhile; columns of one constraint stay
    /// together, so that every value of them satisfied it somewhere.
    private func outdatedColumns(_ writes: [String: SetFold.Write], over former: StoredRow) -> Set<String> {
        var columns = Set(
            writes.filter { column, write in
                firstWrites[column] == nil && !write.isKnown && former.cell(column).map { $0 != write.cell } ?? false
            }.keys
        )
        for group in former.table.checkGroups where !group.isDisjoint(with: columns) { columns.formUnion(group) }
        return columns
    }
}

extension OldCell {
    /// The cell, unless it's known only by its digest.
    fileprivate var cell: Cell? { if case .cell(let cell) = self { cell } else { nil } }

    /// Whether a cell held this.
    fileprivate func describes(_ cell: Cell) -> Bool {
        switch self {
        case .cell(let old): old == cell
        case .digest: self == OldCell(cell)
        }
    }
}
