// Rule 5, UNIQUE: an edit that takes a value is taken back; rows that are the same thing are merged.

extension SetFold {
    /// Repairs a clash of rows in a unique index.
    ///
    /// Example: One device renamed the tag "work" to "job", and another one, earlier in the order, had renamed
    /// "office" to "job": the later edit is taken back and logged, and the tag is called "work" again.
    mutating func repair(_ check: RepairQueue.UniqueCheck) throws {
        let unique = try schema.table(check.table).uniques[check.index]
        guard let state = try work.row(check.row), let key = try schema.uniqueKey(check.index, of: check.row, state)
        else { return }
        let rows = try work.rows(with: key)
        if try rows.contains(where: { try isRepeated($0) }) || rows.count > 1 && rows.contains(where: schema.isCounted)
        {
            try leaveOutCounted(rows, check)
        } else if rows.count > 1 {
            if try !unique.isPosition || !moveToEnd(of: check.index, check.row) {
                try repairIdentity(rows, unique, check)
            }
        } else {
            return
        }
        // The other rows may still clash.
        for row in rows {
            if let state = try work.row(row) { try queueUnique(check.index, of: row, state) }
        }
    }

    /// Whether a row without a key occurs twice.
    private mutating func isRepeated(_ row: RowReference) throws -> Bool {
        try schema.isCounted(row) && work.count(row) > 1
    }

    /// Leaves out the later change: of the rows that this set wrote, the one with the greatest name.
    private mutating func leaveOutCounted(_ rows: [RowReference], _ check: RepairQueue.UniqueCheck) throws {
        guard let last = rows.last(where: { traces[$0] != nil }) else { return }
        switch attempt(last, check.sortName) {
        case .repair, .leaveOut: try leaveOut(last)
        case .takeOut: try takeOut(last)
        }
    }

    private mutating func repairIdentity(
        _ rows: [RowReference],
        _ unique: FoldSchema.Unique,
        _ check: RepairQueue.UniqueCheck
    ) throws {
        if let last = rows.last(where: { wroteValues(of: unique, $0) }) {
            switch attempt(last, check.sortName) {
            case .repair: try takeBack(unique, last)
            case .leaveOut: try leaveOut(last)
            case .takeOut: try takeOut(last)
            }
            return
        }
        func standing(_ row: RowReference) -> FoldWorkspace.Standing { traces[row]?.standing ?? .standing }
        let sorted = rows.sorted { (standing($0).rawValue, $0) < (standing($1).rawValue, $1) }
        guard let winner = sorted.first, let loser = sorted.last else { return }
        switch attempt(loser, check.sortName) {
        case .repair: try merge(loser, into: winner)
        case .leaveOut: try leaveOut(loser)
        case .takeOut: try takeOut(loser)
        }
    }

    /// Whether an update of this set gave a row the values of an index that it has.
    private func wroteValues(of unique: FoldSchema.Unique, _ row: RowReference) -> Bool {
        guard let trace = traces[row], trace.image != nil else { return false }
        return !trace.updated.isDisjoint(with: unique.columns)
    }

    /// Takes back what an update wrote to the columns of an index.
    private mutating func takeBack(_ unique: FoldSchema.Unique, _ row: RowReference) throws {
        guard var state = try work.row(row), let trace = traces[row], var cells = trace.image?.cells else { return }
        try lead(&cells, in: row.table)
        let columns = trace.updated.intersection(unique.columns)
        let lost = state.cells.filter { columns.contains($0.key) }
        let kept = cells.filter { columns.contains($0.key) }
        log(.takenBack, row, lost: lost, kept: kept)
        state.cells.merge(kept) { $1 }
        try put(row, state, writing: columns)
        traces[row]?.updated.subtract(columns)
        queue.insert(row)
    }

    // MARK: Positions

    /// Moves rows of a list to its end if they want positions that others have.
    ///
    /// Example: Two devices each added a song as number 3 of an album: the later set's song becomes number 4.
    ///
    /// - Returns: Whether they could be moved; otherwise the rows are treated like any others that clash.
    private mutating func moveToEnd(of index: Int, _ row: RowReference) throws -> Bool {
        let unique = try schema.table(row.table).uniques[index]
        guard let state = try work.row(row), let column = unique.index.columns?.last,
            let key = schema.listKey(index, of: row, state)
        else { return false }
        var positions: [(row: RowReference, value: Int64)] = []
        for row in try work.rows(with: key) {
            guard let state = try work.row(row) else { continue }
            switch schema.cell(column, of: row, state) {
            case .value(.integer(let value)): positions.append((row, value))
            case .value(.null): continue
            case .value, .row: return false
            }
        }
        let written = positions.filter { !(traces[$0.row]?.written.isDisjoint(with: unique.columns) ?? true) }
        let moving = written.isEmpty || written.count == positions.count ? Array(positions.dropFirst()) : written
        guard let highest = positions.map(\.value).max(),
            case let (end, overflows) = highest.addingReportingOverflow(Int64(moving.count)), !overflows
        else { return false }
        let first = end - Int64(moving.count) + 1
        for (offset, item) in moving.sorted(by: { ($0.value, $0.row) < ($1.value, $1.row) }).enumerated() {
            switch attempt(item.row, unique.sortName) {
            case .repair: try move(item.row, column, to: first + Int64(offset))
            case .leaveOut: try leaveOut(item.row)
            case .takeOut: try takeOut(item.row)
            }
        }
        return true
    }

    private mutating func move(_ row: RowReference, _ column: String, to position: Int64) throws {
        guard let state = try work.row(row) else { return }
        let new = Cell.value(.integer(position))
        log(.moved, row, lost: [column: schema.cell(column, of: row, state)], kept: [column: new])
        try rewrite(row, [column: new])
    }
}
