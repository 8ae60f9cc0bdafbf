import StoreChanges

extension Oracle.Integration {
    // MARK: Rule 5, repairs

    // "The first violated unique is repaired, and the search begins again; then the first violated reference […]; last,
    // a row that a repair made violate a CHECK is left out."
    mutating func repair() throws {
        for _ in 0..<10_000 {
            if let clash = firstClash() {
                repair(clash)
            } else if let violation = firstDanglingReference() {
                repair(violation)
            } else if let row = firstCheckViolation() {
                goBack(row, for: .check)
            } else {
                return
            }
        }
        throw OracleError.repairsDoNotEnd(set.header.id)
    }

    private func firstCheckViolation() -> RowReference? {
        for row in traces.filter(\.value.isRepaired).keys.sorted() {
            guard let image = image(row), oracle.violatesCheck(row, image) else { continue }
            let former = RowReference(row.table, traces[row]?.formerName ?? row.row)
            let wasViolated = before.rows[former].map { oracle.violatesCheck(former, self.image(former, $0)) } ?? false
            if !wasViolated { return row }
        }
        return nil
    }

    /// Counts the repairs of a row for the sake of a constraint; returns how many there were.
    mutating func attempt(_ row: RowReference, for constraint: Constraint) -> Int {
        let attempts = traces[row]?.attempts[constraint] ?? 0
        traces[row, default: Trace()].attempts[constraint] = attempts + 1
        return attempts
    }

    // "The second time the row goes back to its image before the set; if that violates too, it is taken out, logged."
    //
    // Returns whether the row was repaired before and has been put back or taken out now.
    mutating func goesBack(_ row: RowReference, for constraint: Constraint) -> Bool {
        switch attempt(row, for: constraint) {
        case 0: return false
        case 1: leaveOut(row)
        default: takeOut(row, .takenOut)
        }
        return true
    }

    /// Leaves a row out at once, and takes it out the second time.
    mutating func goBack(_ row: RowReference, for constraint: Constraint) {
        if attempt(row, for: constraint) == 0 { leaveOut(row) } else { takeOut(row, .takenOut) }
    }

    // MARK: Left out and taken out

    // "Left out: an inserted row is absent, its former tomb and inserters are back, there is no new tomb; an updated row
    // has its image before the set, references led through aliases, under its present name."
    mutating func leaveOut(_ row: RowReference) {
        guard let state = content.rows[row] else {
            leaveOutCounted(row)
            return
        }
        let former = RowReference(row.table, traces[row]?.formerName ?? row.row)
        let schema = table(row.table)
        switch (traces[row]?.origin ?? .before, before.rows[former]) {
        case (.broughtBack(let tomb), _):
            remove(row)
            content.tombs[row] = tomb
            log(.leftOut, row, lost: state.cells)
        case (.before, let earlier?):
            let image = led(self.image(former, earlier).merging(schema.keyCells(of: row.row)) { $1 }, of: schema)
            let cells = values(of: image, in: schema)
            let lost = state.cells.filter { $0.value != cells[$0.key] }
            if !lost.isEmpty { log(.leftOut, row, lost: lost, kept: cells.filter { lost[$0.key] != nil }) }
            content.rows[row]?.inserters = earlier.inserters.union(traces[row]?.mergedInserters ?? [])
            rewrite(row, with: cells)
            traces[row, default: Trace()].marked = []
        case (.inserted, _), (.before, nil):
            remove(row)
            content.tombs[row] = before.tombs[row]
            log(.leftOut, row, lost: state.cells)
        }
    }

    private mutating func leaveOutCounted(_ row: RowReference) {
        let image = table(row.table).countedImage(of: row.row)
        while (content.counts[row] ?? 0) > (before.counts[row] ?? 0), removeCounted(row) {
            log(.leftOut, row, lost: image)
        }
    }

    // "Taken out: the row becomes a tomb with this set as deleter."
    mutating func takeOut(_ row: RowReference, _ rule: Conflict.Rule) {
        guard let state = content.rows[row] else {
            let image = table(row.table).countedImage(of: row.row)
            while removeCounted(row) { log(rule, row, lost: image) }
            return
        }
        remove(row)
        content.tombs[row] = Tomb(row: state, deleters: [set.header.id])
        log(rule, row, lost: state.cells)
    }

    private mutating func remove(_ row: RowReference) {
        content.rows[row] = nil
        let attempts = traces[row]?.attempts ?? [:]
        traces[row] = Trace()
        traces[row]?.attempts = attempts
    }

    // MARK: Writes of repairs

    /// Writes cells outside the key, and references follow.
    mutating func rewrite(_ row: RowReference, with cells: [String: Cell]) {
        guard let former = image(row), let state = content.rows[row] else { return }
        var trace = traces[row] ?? Trace()
        let changed = cells.filter { state.cells[$0.key] != $0.value }
        trace.isRepaired = true
        trace.updated.formUnion(changed.keys)
        trace.written.formUnion(changed.keys)
        trace.marked.subtract(changed.keys)
        traces[row] = trace
        replaceCells(of: row, with: changed)
        moveReferences(from: former, to: row)
    }
}
