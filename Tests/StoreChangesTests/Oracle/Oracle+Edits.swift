import StoreChanges

extension Oracle.Integration {
    // MARK: Rule 1 and 3, updates

    // "Update. Its columns are written, the others stay." "Update of a row that is out: logged."
    mutating func applyUpdates(_ changes: [ResolvedChange]) {
        for resolved in changes {
            guard case .update(let updated) = resolved.change.edit else { continue }
            let row = resolved.target
            guard let state = content.rows[row] else {
                log(.editOfDeleted, row, lost: updated.mapValues(\.new))
                continue
            }
            let current = image(row, state)
            let marked = Set(updated.filter(\.value.isDangling).keys)
            let schema = table(row.table)
            let given = current.merging(updated.mapValues(\.new)) { _, new in new }
            let new = led(given, of: schema, except: marked)
            if new != given || row.row != resolved.change.row { traces[row, default: Trace()].isRepaired = true }
            let old = led(current.merging(updated.compactMapValues(\.old.cell)) { _, old in old }, of: schema)
            var writes: [String: Write] = [:]
            for column in values(of: new, in: schema).keys {
                guard let cell = updated[column] else {
                    // A reference of several columns can be led away in columns that the change doesn't have.
                    if new[column] != current[column] {
                        writes[column] = Write(new[column] ?? .value(.null), isKnown: true)
                    }
                    continue
                }
                let goes = current[column] ?? .value(.null)
                let isKnown = cell.old.describes(goes) || cell.old.cell != nil && old[column] == goes
                writes[column] = Write(
                    new[column] ?? .value(.null),
                    isKnown: isKnown && !cell.putsBack,
                    isDangling: cell.isDangling
                )
            }
            write(writes, to: row)
        }
    }

    /// A cell that a change writes.
    struct Write {
        var cell: Cell
        /// Whether the author knew the value that goes.
        var isKnown: Bool
        var isDangling: Bool

        init(_ cell: Cell, isKnown: Bool, isDangling: Bool = false) {
            self.cell = cell
            self.isKnown = isKnown
            self.isDangling = isDangling
        }
    }

    // "Changes captured together with a schema change are marked, written only where the old value is still there, else
    // logged." "Columns that one CHECK names together are one column."
    private func staleColumns(
        _ writes: [String: Write],
        of row: RowReference,
        over state: RowState,
        _ trace: Trace
    ) -> Set<String> {
        guard set.header.isMigration else { return [] }
        var columns = Set(writes.filter { trace.firstWrites[$0.key] == nil && !$0.value.isKnown }.keys)
        columns = columns.filter { (state.cells[$0] ?? .value(.null)) != writes[$0]?.cell }
        var count: Int
        repeat {
            count = columns.count
            for group in table(row.table).checks.map(\.columns) where !columns.isDisjoint(with: group) {
                columns.formUnion(group)
            }
        } while columns.count > count
        return columns
    }

    // "If the value that goes isn't the author's old value, or the change is marked as putting back, both are logged."
    //
    // "Two changes of one set that reach one row and write one cell differently: the first counts, the second is
    // logged."
    private mutating func write(_ writes: [String: Write], to row: RowReference) {
        guard let state = content.rows[row] else { return }
        var (new, lost, kept): ([String: Cell], [String: Cell], [String: Cell]) = ([:], [:], [:])
        var (second, first): ([String: Cell], [String: Cell]) = ([:], [:])
        var (outdated, present): ([String: Cell], [String: Cell]) = ([:], [:])
        var trace = traces[row] ?? Trace()
        let stale = staleColumns(writes, of: row, over: state, trace)
        for (column, write) in writes {
            if let former = trace.firstWrites[column] {
                if former != write.cell { (second[column], first[column]) = (write.cell, former) }
                continue
            }
            trace.firstWrites[column] = write.cell
            trace.updated.insert(column)
            trace.written.insert(column)
            if write.isDangling { trace.marked.insert(column) } else { trace.marked.remove(column) }
            let goes = state.cells[column] ?? .value(.null)
            guard goes != write.cell else { continue }
            if stale.contains(column) {
                (outdated[column], present[column]) = (write.cell, goes)
                continue
            }
            new[column] = write.cell
            if !write.isKnown { (lost[column], kept[column]) = (goes, write.cell) }
        }
        traces[row] = trace
        if !second.isEmpty { log(.sameCellTwice, row, lost: second, kept: first) }
        if !outdated.isEmpty { log(.migratedValue, row, lost: outdated, kept: present) }
        if !lost.isEmpty { log(.overwritten, row, lost: lost, kept: kept) }
        formerImages.append((row, image(row, state)))
        replaceCells(of: row, with: new)
    }

    // MARK: Rule 4, inserts

    // "Insert. Absent: a new row, its tomb goes. Present (natural keys): as rule 1, and one inserter more."
    mutating func applyInserts(_ changes: [ResolvedChange]) {
        for resolved in changes {
            guard case .insert(let inserted) = resolved.change.edit else { continue }
            let row = resolved.target
            let schema = table(row.table)
            if schema.isCounted(row.row) {
                insertCounted(row, inserted, resolved.change.row)
                continue
            }
            let image = inserted.cells.merging(schema.keyCells(of: row.row)) { _, key in key }
            let ledImage = led(image, of: schema, except: inserted.dangling)
            let isLed = ledImage != image || row.row != resolved.change.row
            let cells = values(of: ledImage, in: schema)
            if content.rows[row] != nil {
                var writes: [String: Write] = [:]
                for (column, cell) in cells {
                    writes[column] = Write(cell, isKnown: false, isDangling: inserted.dangling.contains(column))
                }
                write(writes, to: row)
                if isLed { traces[row]?.isRepaired = true }
                content.rows[row]?.inserters.insert(set.header.id)
            } else {
                content.rows[row] = RowState(cells: cells, inserters: [set.header.id])
                content.tombs[row] = nil
                var trace = Trace()
                trace.origin = .inserted
                trace.written = Set(image.keys)
                trace.marked = inserted.dangling
                trace.firstWrites = cells
                trace.isRepaired = isLed
                traces[row] = trace
            }
        }
    }

    // MARK: Values that references name

    // "A changed value that references name leaves an alias."
    mutating func leaveAliases(of former: [String: Cell], at row: RowReference) {
        guard let present = image(row) else { return }
        for columns in oracle.schema.referencedColumns(of: row.table) {
            let cells = columns.map { former[$0] ?? .value(.null) }
            guard !cells.contains(where: \.isNull), cells != columns.map({ present[$0] ?? .value(.null) }) else {
                continue
            }
            let key = AliasKey(table: row.table, columns: columns, cells: cells)
            content.aliases[key] = Alias(row: row.row, maker: set.header.id)
        }
    }

    /// Writes cells outside the key; references follow separately.
    mutating func replaceCells(of row: RowReference, with cells: [String: Cell]) {
        guard let former = image(row), content.rows[row] != nil else { return }
        content.rows[row]?.cells.merge(cells) { _, new in new }
        leaveAliases(of: former, at: row)
    }

    /// Leads the references of all rows from values that the set changed to the values of today.
    ///
    /// Only after all edits: rows may have exchanged their values.
    mutating func followChangedValues() {
        for (row, former) in formerImages { moveReferences(from: former, to: row) }
        formerImages = []
    }
}

extension OldCell {
    /// The cell, unless it is known only by its digest.
    var cell: Cell? {
        guard case .cell(let cell) = self else { return nil }
        return cell
    }

    /// Whether a cell is the cell that is meant.
    func describes(_ cell: Cell) -> Bool {
        switch self {
        case .cell(let old): old == cell
        case .digest(let digest): digest == SetDigest(of: cell.encoded)
        }
    }
}
