// Rule 5: what violates a constraint after the edits is repaired, one violation after another.

extension SetFold {
    /// Repairs until no constraint is violated: unique indexes first, then references, then `CHECK` constraints.
    ///
    /// Each row is repaired once because of each constraint. The second time it goes back to what it was before the set;
    /// if it's still in the way, it's taken out. So the repairs end.
    ///
    /// - Parameter former: The constraints that held before the set; indexes that hold from the set on are checked completely.
    /// - Throws: What the state throws.
    mutating func repair(after former: FoldConstraints) throws {
        isRepairing = true
        ownKeys = []
        try queueClashes(after: former)
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

    /// Counts the repairs of a row because of a constraint.
    ///
    /// - Returns: How often it was repaired before.
    mutating func attempt(_ row: RowReference, _ constraint: String) throws -> Int {
        try trace(row)
        let count = traces[row]?.repairs[constraint] ?? 0
        traces[row]?.repairs[constraint] = count + 1
        return count
    }

    /// Puts a row back, or takes it out, if it was repaired before because of this constraint.
    mutating func goesBack(_ row: RowReference, _ constraint: String) throws -> Bool {
        switch try attempt(row, constraint) {
        case 0: return false
        case 1: try leaveOut(row)
        default: try takeOut(row)
        }
        return true
    }

    /// Queues the constraints that a row may violate because columns were written.
    mutating func queue(_ row: RowReference, _ columns: Set<String>) throws {
        guard isRepairing else { return }
        let table = try schema.table(row.table)
        for (index, unique) in table.uniques.enumerated()
        where !unique.columns.isDisjoint(with: columns) && constraints.hold(unique, of: row.table) {
            if let state = try work.row(row) { try queueUnique(index, of: row, state) }
        }
        for (index, reference) in table.references.enumerated() where !columns.isDisjoint(with: reference.key.columns) {
            queueReference(row, FoldSchema.ReferenceID(table: row.table, index: index))
        }
    }

    /// Queues the clashes in unique indexes that didn't hold before the set.
    private mutating func queueClashes(after former: FoldConstraints) throws {
        for (table, content) in schema.tables {
            for (index, unique) in content.uniques.enumerated()
            where constraints.hold(unique, of: table) && !former.hold(unique, of: table) {
                for name in try work.base.clashes(in: index, of: table) {
                    let row = RowReference(table, name)
                    if let state = try work.row(row) { try queueUnique(index, of: row, state) }
                }
            }
        }
    }

    /// Queues a clash under the least of the rows that clash.
    mutating func queueUnique(_ index: Int, of row: RowReference, _ state: StoredRow) throws {
        guard let key = try schema.uniqueKey(index, of: row, state) else { return }
        // The other rows of a queued clash come after the row under which it's queued.
        let first = try queue.row(of: key).map { min($0, row) } ?? work.rows(with: key).first ?? row
        let sortName = try schema.table(row.table).uniques[index].sortName
        queue.insert(RepairQueue.UniqueCheck(sortName: sortName, row: first, index: index, key: key))
    }

    mutating func queueReference(_ row: RowReference, _ id: FoldSchema.ReferenceID) {
        guard let reference = schema.tables[id.table]?.references[id.index],
            let action = constraints.action(of: reference, of: id.table)
        else { return }
        let rank =
            switch action {
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
        guard let state = try work.row(row) else { return }
        let table = try schema.table(row.table).schema
        guard try schema.evaluator.violatesCheck(table, schema.cells(of: row, state)) else { return }
        if let image = traces[row]?.image, try schema.evaluator.violatesCheck(table, schema.cells(of: row, image)) {
            return
        }
        if try attempt(row, "CHECK") == 0 { try leaveOut(row) } else { try takeOut(row) }
    }

    // MARK: The last resorts

    /// Takes a set's changes of a row back: an inserted row is absent again, an updated one is as it was.
    mutating func leaveOut(_ row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        if schema.isCounted(row) { return try leaveOutCounted(row, state) }
        try trace(row)
        switch traces[row]?.origin {
        case .broughtBack(let tomb):
            log(.leftOut, row, lost: state.cells)
            try remove(row)
            try work.write(row, tomb: tomb)
        case .before(let image?):
            var cells = schema.cells(of: row, image)
            try lead(&cells, in: row.table)
            let present = state.cells
            let changed = cells.filter { column, former in present[column].map { $0 != former } ?? false }
            let lost = present.filter { changed[$0.key] != nil }
            if !lost.isEmpty { log(.leftOut, row, lost: lost, kept: changed) }
            let inserters = image.inserters.union(traces[row]?.mergedInserters ?? [])
            try work.write(row, StoredRow(state.table, state.image, inserters: inserters))
            try rewrite(row, changed)
            traces[row]?.dangling = []
        case .inserted, .before(nil), nil:
            log(.leftOut, row, lost: state.cells)
            try remove(row)
            try work.write(row, tomb: try work.formerTomb(row))
        }
    }

    /// Gives a row without a key the count that it had before the set.
    private mutating func leaveOutCounted(_ row: RowReference, _ state: StoredRow) throws {
        let former = try work.formerCount(row)
        while try work.count(row) > former {
            log(.leftOut, row, lost: lostCells(of: row, state))
            try removeOne(row)
        }
    }

    /// Removes one of equal rows without a key.
    mutating func removeOne(_ row: RowReference) throws {
        let count = try work.count(row)
        if count > 1 { try work.setCount(row, count - 1) } else { try remove(row) }
    }

    /// Deletes a row that violates a constraint in every form.
    mutating func takeOut(_ row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        try logLost(.takenOut, row, state)
        try bury(row)
    }
}
