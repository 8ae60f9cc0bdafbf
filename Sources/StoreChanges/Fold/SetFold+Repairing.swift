// Rule 5: what violates a constraint after the edits is repaired, one violation after another.

extension SetFold {
    /// Repairs until no constraint is violated: unique indexes first, then references, then `CHECK` constraints.
    ///
    /// Each row is repaired once because of each constraint. The second time it goes back to what it was before the set;
    /// if it's still in the way, it's taken out. So the repairs end.
    mutating func repair() throws {
        isRepairing = true
        for (row, trace) in traces { try queue(row, trace.written) }
        while true {
            if let check = queue.nextUnique() {
                try repair(check)
            } else if let check = queue.nextReference() {
                try repair(check)
            } else if let row = queue.nextRow() {
                try repairCheck(of: row)
            } else {
                return
            }
        }
    }

    /// What to do about a violation.
    enum Attempt {
        case repair, leaveOut, takeOut
    }

    /// Counts the repairs of a row because of a constraint.
    mutating func attempt(_ row: RowReference, _ constraint: String) -> Attempt {
        let count = repairs[Repair(row: row, constraint: constraint), default: 0] + 1
        repairs[Repair(row: row, constraint: constraint)] = count
        return count == 1 ? .repair : count == 2 ? .leaveOut : .takeOut
    }

    /// Queues the constraints that a row may violate because columns were written.
    mutating func queue(_ row: RowReference, _ columns: Set<String>) throws {
        guard isRepairing, let state = try work.row(row) else { return }
        let table = try schema.table(row.table)
        for (index, unique) in table.uniques.enumerated() where !unique.columns.isDisjoint(with: columns) {
            try queueUnique(index, of: row, state)
        }
        for (index, reference) in table.references.enumerated() where !columns.isDisjoint(with: reference.key.columns) {
            queueReference(row, FoldSchema.ReferenceID(table: row.table, index: index))
        }
    }

    /// Queues a clash under the least of the rows that clash.
    mutating func queueUnique(_ index: Int, of row: RowReference, _ state: RowState) throws {
        guard let key = try schema.uniqueKey(index, of: row, state), let first = try work.rows(with: key).first else {
            return
        }
        let sortName = try schema.table(row.table).uniques[index].sortName
        queue.insert(RepairQueue.UniqueCheck(table: row.table, sortName: sortName, row: first, index: index))
    }

    mutating func queueReference(_ row: RowReference, _ id: FoldSchema.ReferenceID) {
        guard let reference = schema.tables[id.table]?.references[id.index] else { return }
        let rank =
            switch reference.key.onDelete {
            case .noAction, .restrict, .setDefault: 0
            case .setNull: 1
            case .cascade: 2
            }
        queue.insert(
            RepairQueue.ReferenceCheck(
                rank: rank,
                table: row.table,
                sortName: reference.sortName,
                row: row,
                reference: id
            )
        )
    }

    // MARK: CHECK

    private mutating func repairCheck(of row: RowReference) throws {
        guard let state = try work.row(row),
            try schema.evaluator.violatesCheck(schema.table(row.table).schema, schema.cells(of: row, state))
        else { return }
        switch attempt(row, "CHECK") {
        case .repair: try leaveOut(row)
        case .leaveOut, .takeOut: try takeOut(row)
        }
    }

    // MARK: The last resorts

    /// Takes a set's changes of a row back: an inserted row is absent again, an updated one is as it was.
    mutating func leaveOut(_ row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        if schema.isCounted(row) {
            log(.leftOut, row)
            try restoreCount(of: row)
        } else if let image = traces[row]?.image {
            var cells = image.cells
            try lead(&cells, in: row.table)
            log(.leftOut, row, lost: state.cells.filter { cells[$0.key] != $0.value }, kept: cells)
            traces[row]?.updated = []
            try put(row, RowState(cells: cells, inserters: image.inserters), writing: allColumns(row.table))
        } else {
            log(.leftOut, row, lost: state.cells)
            try remove(row)
            try work.write(row, tomb: try work.formerTomb(row))
        }
    }

    /// Gives a row without a key the count that it had before the set.
    mutating func restoreCount(of row: RowReference) throws {
        let count = try work.formerCount(row)
        if count == 0 { return try remove(row) }
        let isNew = try work.count(row) == 0
        try work.setCount(row, count)
        if isNew { try queue(row, allColumns(row.table)) }
    }

    /// Deletes a row that violates a constraint in every form.
    mutating func takeOut(_ row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        log(.takenOut, row, lost: state.cells)
        try bury(row)
    }
}
