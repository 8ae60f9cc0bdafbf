import StoreChanges

extension Oracle.Integration {
    // MARK: Rule 6, rows without a key

    // "Keyless tables: insert + 1 […]."
    mutating func insertCounted(_ row: RowReference, _ inserted: InsertedRow, _ name: RowName) {
        content.counts[row, default: 0] += 1
        var trace = traces[row] ?? Trace()
        trace.origin = .inserted
        trace.written = Set(table(row.table).sortedColumns)
        trace.marked.formUnion(inserted.dangling)
        if row.row != name { trace.isRepaired = true }
        traces[row] = trace
    }

    // "[…] delete − 1, never below 0 (logged)."
    mutating func deleteCounted(_ row: RowReference) {
        if !removeCounted(row) { log(.countBelowZero, row) }
    }

    /// Removes one of the equal rows; returns whether there was one.
    @discardableResult
    mutating func removeCounted(_ row: RowReference) -> Bool {
        guard let count = content.counts[row] else { return false }
        content.counts[row] = count > 1 ? count - 1 : nil
        return true
    }

    /// Gives equal rows another content; "re-pointed references add counts".
    mutating func moveCounted(_ row: RowReference, to image: [String: Cell], writing columns: [String]) {
        let moved = RowReference(row.table, table(row.table).countedName(of: image))
        guard moved != row, let count = content.counts.removeValue(forKey: row) else { return }
        content.counts[moved, default: 0] += count
        var trace = traces[moved] ?? Trace()
        trace.isMoved = true
        trace.isRepaired = true
        trace.written.formUnion(columns)
        trace.written.formUnion(traces[row]?.written ?? [])
        trace.attempts.merge(traces[row]?.attempts ?? [:]) { max($0, $1) }
        trace.marked = trace.marked.union(traces[row]?.marked ?? []).subtracting(columns)
        traces[moved] = trace
    }
}
