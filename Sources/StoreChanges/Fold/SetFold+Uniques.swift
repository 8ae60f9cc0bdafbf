// Rule 5, UNIQUE: an edit that takes a value is taken back; rows that are the same thing are merged.

extension SetFold {
    /// Repairs a clash of rows in a unique index.
    ///
    /// Example: One device renamed the tag "work" to "job", and another one, earlier in the order, had renamed
    /// "office" to "job": the later edit is taken back and logged, and the tag is called "work" again.
    mutating func repair(_ check: RepairQueue.UniqueCheck) throws {
        let table = try schema.table(check.row.table)
        let rows = try work.rows(with: check.key)
        let isRepeated = try rows.contains { try schema.isCounted($0) && work.count($0) > 1 }
        guard let first = rows.first, rows.count > 1 || isRepeated else { return }
        // The other rows may still clash after a repair. If the row under which they were queued is gone, the least row that
        // is left gives their position in the order.
        var next = check
        next.row = first
        queue.insert(next)
        guard first == check.row else { return }
        if rows.contains(where: schema.isCounted) {
            try leaveOutCounted(rows, check.sortName, in: table)
        } else if try !table.uniques[check.index].isPosition || !moveToEnd(check.index, first) {
            try repairIdentity(rows, table.uniques[check.index])
        }
    }

    /// Leaves out the later change: a row of which this set made more, else another row that it wrote.
    private mutating func leaveOutCounted(
        _ rows: [RowReference],
        _ constraint: String,
        in table: FoldSchema.Table
    ) throws {
        let counted = rows.filter(schema.isCounted)
        let added = try counted.last { try work.count($0) > work.formerCount($0) }
        if let added {
            log(.leftOut, added, lost: schema.cells(of: added, StoredRow(countedIn: table)))
            try removeOne(added)
        } else if let row = rows.last(where: { !schema.isCounted($0) && traces[$0]?.written.isEmpty == false }) {
            if try attempt(row, constraint) == 0 { try leaveOut(row) } else { try takeOut(row) }
        } else if let last = counted.last {
            log(.takenOut, last, lost: schema.cells(of: last, StoredRow(countedIn: table)))
            try removeOne(last)
        }
    }

    private mutating func repairIdentity(_ rows: [RowReference], _ unique: FoldSchema.Unique) throws {
        for row in rows.reversed() {
            let cells = try changedCells(of: row, unique)
            guard !cells.isEmpty else { continue }
            if try goesBack(row, unique.sortName) { return }
            try takeBack(row, cells)
            return
        }
        let sorted = rows.sorted { precedes($0, $1) }
        try merge(sorted[1], into: sorted[0])
    }

    /// Whether a row stays when it's merged with another one.
    func precedes(_ first: RowReference, _ second: RowReference) -> Bool {
        let (firstRank, secondRank) = (traces[first]?.rank ?? 0, traces[second]?.rank ?? 0)
        return firstRank == secondRank ? first < second : firstRank < secondRank
    }

    /// The former values of an index's cells that the set's edits changed.
    private mutating func changedCells(of row: RowReference, _ unique: FoldSchema.Unique) throws -> [String: Cell] {
        guard let trace = traces[row], let image = trace.image, let state = try work.row(row) else { return [:] }
        var cells = schema.cells(of: row, image)
        try lead(&cells, in: row.table)
        return cells.filter { column, cell in
            unique.columns.contains(column) && trace.updated.contains(column) && state.cells[column] != cell
        }
    }

    /// Puts former values of a row back.
    mutating func takeBack(_ row: RowReference, _ cells: [String: Cell]) throws {
        guard let state = try work.row(row) else { return }
        log(.takenBack, row, lost: state.cells.filter { cells[$0.key] != nil }, kept: cells)
        try rewrite(row, cells)
    }

    // MARK: Positions

    /// Moves rows of a list to its end if they want positions that others have.
    ///
    /// Example: Two devices each added a song as number 3 of an album: the later set's song becomes number 4.
    ///
    /// - Returns: Whether they could be moved; otherwise the rows are treated like any others that clash.
    private mutating func moveToEnd(_ index: Int, _ row: RowReference) throws -> Bool {
        let unique = try schema.table(row.table).uniques[index]
        guard let state = try work.row(row), let column = unique.index.columns?.last,
            let key = try schema.listKey(index, of: row, state)
        else { return false }
        var positions: [(row: RowReference, value: Int64)] = []
        for row in try work.rows(with: key) {
            guard let state = try work.row(row) else { continue }
            switch schema.cell(column, of: row, state).representative(.binary) {
            case .value(.integer(let value)) where !schema.isCounted(row): positions.append((row, value))
            case .value, .row: return false
            }
        }
        let written = positions.filter { !(traces[$0.row]?.written.isDisjoint(with: unique.columns) ?? true) }
        let moving = written.isEmpty || written.count == positions.count ? Array(positions.dropFirst()) : written
        let steps = Int64(moving.count * Self.maximumPositions)
        guard let highest = positions.map(\.value).max(), highest <= .max - steps else { return false }
        var last = highest
        for item in moving.sorted(by: { $0.value == $1.value ? $0.row < $1.row : $0.value < $1.value }) {
            guard try !goesBack(item.row, unique.sortName), let state = try work.row(item.row) else { continue }
            var cells = schema.cells(of: item.row, state)
            let free = try (1...Self.maximumPositions).first { step in
                cells[column] = .value(.integer(last + Int64(step)))
                return try !isTaken(cells, from: item.row, column, besides: index)
            }
            guard let free else {
                _ = try goesBack(item.row, unique.sortName)
                continue
            }
            last += Int64(free)
            let new = Cell.value(.integer(last))
            let name = RowReference(item.row.table, schema.name(of: cells, in: item.row))
            log(.moved, name, lost: [column: .value(.integer(item.value))], kept: [column: new])
            if name == item.row {
                try rewrite(item.row, [column: new])
            } else {
                try move(item.row, [column: new])
            }
        }
        return true
    }

    /// How many positions are tried for a row: another unique index may have a row of another list there.
    private static var maximumPositions: Int { 100 }

    /// Whether another row takes the values of another unique index that contains a column.
    private mutating func isTaken(
        _ cells: [String: Cell],
        from row: RowReference,
        _ column: String,
        besides index: Int
    ) throws -> Bool {
        let table = try schema.table(row.table)
        return try table.uniques.indices.contains { other in
            let unique = table.uniques[other]
            guard other != index, unique.columns.contains(column), constraints.hold(unique, of: row.table),
                let key = try schema.uniqueKey(other, in: table, { cells[$0] ?? .null })
            else { return false }
            return try work.rows(with: key).contains { $0 != row }
        }
    }
}
