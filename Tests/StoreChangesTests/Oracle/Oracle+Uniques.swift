import StoreChanges

extension Oracle.Integration {
    /// Rows with equal values in a unique index.
    struct Clash {
        var table: TableSchema
        var unique: UniqueIndex
        var rows: [Entry]
    }

    // MARK: Search

    /// The first violated unique, by table, column names and row.
    func firstClash() -> Clash? {
        for table in oracle.schema.tables {
            let entries = entries(of: table.name)
            for unique in table.uniques {
                let keys = entries.map { indexed($0, unique, table) }
                for (index, key) in keys.enumerated() {
                    guard let key else { continue }
                    let equal = entries.indices.filter { keys[$0] == key }
                    let isRepeated = (content.counts[entries[index].row] ?? 1) > 1
                    if equal.count > 1 || isRepeated {
                        return Clash(table: table, unique: unique, rows: equal.map { entries[$0] })
                    }
                }
            }
        }
        return nil
    }

    /// What the index has for a row, as SQLite compares it; "NULLs never clash. Partial indexes count rows that satisfy
    /// them."
    private func indexed(_ entry: Entry, _ unique: UniqueIndex, _ table: TableSchema) -> [ComparedValue]? {
        guard let cells = oracle.indexKey(unique, table.name, entry.image), !cells.contains(where: \.isNull) else {
            return nil
        }
        return zip(cells, unique.terms).map { ComparedValue($0, $1.collation) }
    }

    // MARK: Repair

    mutating func repair(_ clash: Clash) {
        if clash.rows.contains(where: \.isCounted) {
            leaveOutCounted(clash)
        } else if clash.unique.kind == .position, let group = group(of: clash) {
            move(group, clash)
        } else {
            repairIdentity(clash)
        }
    }

    // "If rows of the clash had cells of that index changed by this set's updates, those are taken back, the greatest name
    // first. Else they are the same thing."
    private mutating func repairIdentity(_ clash: Clash) {
        let changed = clash.rows.map { ($0.row, changedCells(of: $0.row, clash.unique, clash.table)) }
            .filter { !$0.1.isEmpty }
        if let (row, cells) = changed.last {
            if goesBack(row, for: .unique(clash.unique)) { return }
            let lost = content.rows[row]?.cells.filter { cells[$0.key] != nil } ?? [:]
            log(.takenBack, row, lost: lost, kept: cells)
            rewrite(row, with: cells)
            return
        }
        let rows = clash.rows.map(\.row).sorted(by: precedes)
        merge(rows[1], into: rows[0])
    }

    // "Of standing < moved by an alias < inserted < brought back, the lower (then the lesser name) stays."
    func precedes(_ first: RowReference, _ second: RowReference) -> Bool {
        let (firstRank, secondRank) = (rank(first), rank(second))
        return firstRank == secondRank ? first < second : firstRank < secondRank
    }

    private func rank(_ row: RowReference) -> Int {
        switch traces[row]?.origin ?? .before {
        case .before: traces[row]?.isMoved == true ? 1 : 0
        case .inserted: 2
        case .broughtBack: 3
        }
    }

    /// The values before the set of the index's cells that the set's updates changed.
    private func changedCells(
        of row: RowReference,
        _ unique: UniqueIndex,
        _ table: TableSchema
    ) -> [String: Cell] {
        guard let trace = traces[row], case .before = trace.origin, let state = content.rows[row] else { return [:] }
        let former = RowReference(row.table, trace.formerName ?? row.row)
        guard let earlier = before.rows[former] else { return [:] }
        let image = led(image(former, earlier), of: table)
        let columns = unique.namedColumns(of: table).filter(trace.updated.contains)
        return Dictionary(uniqueKeysWithValues: columns.map { ($0, image[$0] ?? .value(.null)) })
            .filter { state.cells[$0.key] != $0.value }
    }

    // "A clash of [keyless rows] leaves the later change out": the one of this set, then the greatest name.
    private mutating func leaveOutCounted(_ clash: Clash) {
        let counted = clash.rows.filter(\.isCounted).map(\.row)
        if let row = counted.last(where: { (content.counts[$0] ?? 0) > (before.counts[$0] ?? 0) }) {
            log(.leftOut, row, lost: table(row.table).countedImage(of: row.row))
            removeCounted(row)
        } else if let row = clash.rows.last(where: { !$0.isCounted && traces[$0.row]?.written.isEmpty == false })?.row {
            goBack(row, for: .unique(clash.unique))
        } else if let row = counted.last {
            log(.takenOut, row, lost: table(row.table).countedImage(of: row.row))
            removeCounted(row)
        }
    }

    // MARK: Positions

    /// A row of a list, with its position in the list.
    private struct Positioned {
        var row: RowReference
        var position: Int64
        /// Whether the set wrote columns of the index.
        var isWritten: Bool
    }

    /// The list in which rows clash; `nil` if a position isn't an integer, or there is no higher one.
    private func group(of clash: Clash) -> [Positioned]? {
        guard let first = clash.rows.first, let list = indexed(first, clash.unique, clash.table)?.dropLast() else {
            return nil
        }
        var group: [Positioned] = []
        for entry in entries(of: clash.table.name) {
            guard let key = indexed(entry, clash.unique, clash.table), key.dropLast() == list else { continue }
            guard case .integer(let position) = key.last, !entry.isCounted else { return nil }
            let written = traces[entry.row]?.written ?? []
            let isWritten = !written.isDisjoint(with: clash.unique.namedColumns(of: clash.table))
            group.append(Positioned(row: entry.row, position: position, isWritten: isWritten))
        }
        let highest = group.map(\.position).max() ?? .max
        return highest > .max - Int64(moving(group).count * Self.maximumPositions) ? nil : group
    }

    // "The rows of the group whose columns of that index this set wrote (if all or none, all but the least name) […],
    // ascending by value and name […]."
    private func moving(_ group: [Positioned]) -> [Positioned] {
        let written = group.filter(\.isWritten)
        let moving = written.isEmpty || written.count == group.count ? Array(group.dropFirst()) : written
        return moving.sorted { $0.position == $1.position ? $0.row < $1.row : $0.position < $1.position }
    }

    // "The rows of the group whose columns of that index this set wrote (if all or none, all but the least name),
    // together, ascending by value and name, each take the group's highest + 1."
    private mutating func move(_ group: [Positioned], _ clash: Clash) {
        guard let column = clash.unique.columns?.last, var highest = group.map(\.position).max() else { return }
        for moved in moving(group) {
            guard !goesBack(moved.row, for: .unique(clash.unique)), var image = image(moved.row) else { continue }
            let free = (1...Self.maximumPositions).first { step in
                image[column] = .value(.integer(highest + Int64(step)))
                return !isTaken(image, from: moved.row, column, besides: clash)
            }
            guard let free else {
                _ = goesBack(moved.row, for: .unique(clash.unique))
                continue
            }
            highest += Int64(free)
            let (lost, kept) = (Cell.value(.integer(moved.position)), Cell.value(.integer(highest)))
            let name = RowReference(moved.row.table, clash.table.name(of: image) ?? moved.row.row)
            log(.moved, name, lost: [column: lost], kept: [column: kept])
            if name == moved.row {
                rewrite(moved.row, with: [column: kept])
            } else {
                move(moved.row, to: image, writing: [column])
            }
        }
    }

    private static var maximumPositions: Int { 100 }

    /// Whether another row takes the values of another unique index that contains a column.
    private func isTaken(
        _ image: [String: Cell],
        from row: RowReference,
        _ column: String,
        besides clash: Clash
    ) -> Bool {
        let entries = entries(of: clash.table.name)
        guard var moved = entries.first(where: { $0.row == row }) else { return false }
        moved.image = image
        return clash.table.uniques.contains { unique in
            guard unique != clash.unique, unique.namedColumns(of: clash.table).contains(column),
                let key = indexed(moved, unique, clash.table)
            else { return false }
            return entries.contains { $0.row != row && indexed($0, unique, clash.table) == key }
        }
    }
}

extension UniqueIndex {
    /// The columns of a table that the index names, in expressions and its condition too.
    func namedColumns(of table: TableSchema) -> [String] {
        let texts = terms.map { $0.column ?? $0.expression } + [condition ?? ""]
        let words = texts.flatMap { text in
            text.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.map { $0.lowercased() } + [text.lowercased()]
        }
        return table.columns.map(\.name).filter { words.contains($0.lowercased()) }
    }
}
