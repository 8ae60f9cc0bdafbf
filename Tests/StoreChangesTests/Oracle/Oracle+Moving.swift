import StoreChanges

extension Oracle.Integration {
    // MARK: References that move to another row or value

    /// Leads every reference that had the former values of a row, and dangles now, to the row's present values.
    mutating func moveReferences(from former: [String: Cell], to row: RowReference) {
        for schema in oracle.schema.tables {
            for key in schema.references where key.parent == row.table {
                for child in entries(of: schema.name) {
                    guard let image = image(child.row), let moved = moved(image, key, former, row),
                        !isMarked(key, child.row)
                    else { continue }
                    move(child.row, to: image.merging(moved) { $1 }, writing: key.columns)
                }
                moveTombs(of: schema, key, former, row)
            }
        }
    }

    /// The new cells of a reference that has the former values and dangles; `nil` if it stays as it is.
    ///
    /// It stays too if the row has `NULL` in the columns to which it refers; then it has lost its parent.
    private func moved(
        _ image: [String: Cell],
        _ key: ForeignKey,
        _ former: [String: Cell],
        _ row: RowReference
    ) -> [String: Cell]? {
        guard let cells = cells(of: key, in: image), matches(key, cells, former), dangles(key, image),
            let parent = self.image(row)
        else { return nil }
        let found = key.parentColumns.map { parent[$0] ?? .value(.null) }
        guard !found.contains(where: \.isNull) else { return nil }
        return Dictionary(zip(key.columns, found)) { first, _ in first }
    }

    /// Gives a row other cells, maybe in its key, because its reference or its position in a list has changed.
    mutating func move(_ row: RowReference, to image: [String: Cell], writing columns: [String]) {
        let schema = table(row.table)
        guard let state = content.rows[row], let former = self.image(row) else {
            moveCounted(row, to: image, writing: columns)
            return
        }
        var trace = traces[row] ?? Trace()
        trace.isMoved = true
        trace.isRepaired = true
        trace.written.formUnion(columns)
        traces[row] = trace
        let name = RowReference(row.table, schema.name(of: image) ?? row.row)
        let cells = values(of: image, in: schema)
        if name == row {
            replaceCells(of: row, with: cells)
            moveReferences(from: former, to: row)
        } else if content.rows[name] != nil {
            content.rows[row]?.cells = cells
            unite(row, name, former)
        } else {
            rename(row, to: name, RowState(cells: cells, inserters: state.inserters), former)
        }
    }

    /// Gives a row another name; the former one becomes an alias.
    private mutating func rename(
        _ row: RowReference,
        to name: RowReference,
        _ state: RowState,
        _ former: [String: Cell]
    ) {
        content.rows[row] = nil
        content.rows[name] = state
        content.tombs[name] = nil
        var trace = traces.removeValue(forKey: row) ?? Trace()
        trace.formerName = trace.formerName ?? row.row
        traces[name] = trace
        addAlias(of: row, to: name)
        leaveAliases(of: former, at: name)
        moveReferences(from: former, to: name)
    }

    /// Merges a row into the one whose name it would get; the cells of the lower one stay.
    private mutating func unite(_ row: RowReference, _ name: RowReference, _ former: [String: Cell]) {
        guard precedes(row, name), let state = content.rows[row], let other = content.rows[name],
            let otherImage = image(name)
        else {
            merge(row, into: name, former)
            return
        }
        log(.merged, name, lost: other.cells, kept: state.cells)
        let union = state.inserters.union(other.inserters)
        rename(row, to: name, RowState(cells: state.cells, inserters: union), former)
        traces[name]?.mergedInserters.formUnion(other.inserters)
        leaveAliases(of: otherImage, at: name)
        moveReferences(from: otherImage, to: name)
    }

    // "The other's image is logged, its name becomes an alias, references and inserters move."
    mutating func merge(_ loser: RowReference, into winner: RowReference, _ former: [String: Cell]? = nil) {
        guard let lost = content.rows[loser], let kept = content.rows[winner],
            let image = former ?? image(loser)
        else { return }
        log(.merged, loser, lost: lost.cells, kept: kept.cells)
        content.rows[loser] = nil
        content.rows[winner]?.inserters.formUnion(lost.inserters)
        traces[loser] = nil
        traces[winner, default: Trace()].mergedInserters.formUnion(lost.inserters)
        addAlias(of: loser, to: winner)
        leaveAliases(of: image, at: winner)
        moveReferences(from: image, to: winner)
    }

    /// Makes a name lead to another row; aliases that led to the former row are re-pointed and keep their makers.
    ///
    /// "If that alias would lead back to the row itself, the older alias goes."
    private mutating func addAlias(of row: RowReference, to target: RowReference) {
        let schema = table(row.table)
        func key(_ row: RowReference) -> AliasKey {
            let cells = schema.keyCells(of: row.row)
            return AliasKey(
                table: row.table,
                columns: schema.key.columns,
                cells: schema.key.columns.map { cells[$0] ?? .value(.null) }
            )
        }
        content.aliases[key(target)] = nil
        for (aliasKey, alias) in content.aliases where aliasKey.table == row.table && alias.row == row.row {
            content.aliases[aliasKey]?.row = target.row
        }
        content.aliases[key(row)] = Alias(row: target.row, maker: set.header.id)
    }

    // MARK: Tombs

    /// Leads references of deleted rows as well, so that their names are found and they come back with a parent.
    private mutating func moveTombs(
        of schema: TableSchema,
        _ key: ForeignKey,
        _ former: [String: Cell],
        _ row: RowReference
    ) {
        for child in content.tombs.keys.filter({ $0.table == schema.name }).sorted() {
            guard let tomb = content.tombs[child] else { continue }
            let image = image(child, tomb.row)
            guard let moved = moved(image, key, former, row) else { continue }
            let led = image.merging(moved) { $1 }
            let name = RowReference(child.table, schema.name(of: led) ?? child.row)
            var renamed = tomb
            renamed.row.cells = values(of: led, in: schema)
            content.tombs[child] = nil
            if content.rows[name] == nil {
                if let other = content.tombs[name], name != child, !other.deleters.contains(where: set.header.hasSeen) {
                    renamed = other
                    if !tomb.deleters.contains(where: set.header.hasSeen) {
                        renamed.row.inserters.formUnion(tomb.row.inserters)
                        renamed.deleters.formUnion(tomb.deleters)
                    }
                }
                content.tombs[name] = renamed
            }
            if name != child {
                addAlias(of: child, to: name)
                moveReferences(from: image, to: name)
            }
        }
    }
}
