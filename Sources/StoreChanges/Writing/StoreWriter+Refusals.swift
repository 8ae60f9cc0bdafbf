import GRDB

/// Rows that the store's constraints refuse, and the rows that wait with them.
extension StoreWriter {
    /// Writes as many rows as the store's constraints allow.
    ///
    /// - Throws: ``RefusedRows`` with all others; `DatabaseError`.
    func collectRefusals<Item>(
        _ items: [Item],
        row: (Item) -> RowReference,
        write: (Item) throws -> Void
    ) throws {
        var refused = RefusedRows(reasons: [:])
        for item in items {
            do {
                try write(item)
            } catch let error as DatabaseError where error.isOfRow {
                refused.reasons[row(item)] = error.message ?? "\(error.resultCode)"
                guard store.isInTransaction else { throw refused }
            }
        }
        guard refused.reasons.isEmpty else { throw refused }
    }

    /// Adds the rows that have to wait with refused ones, so that every reference in the store leads where it did: rows that
    /// refer to what a refused row isn't yet, and rows to which a refused row refers as it is.
    func addingDependents(to reasons: [RowReference: String]) throws -> [RowReference: String] {
        var reasons = reasons
        // By which values references won't find a row, and by which values they have to find one still.
        var (missing, needed): (Set<LookupKey>, Set<LookupKey>) = ([], [])
        func noteRefused(_ row: RowReference, _ former: StoredRow?, _ present: StoredRow?) {
            missing.formUnion(keys(of: row, present).subtracting(keys(of: row, former)))
            needed.formUnion(references(of: row, former))
        }
        try forEachPending { row, former, present in
            if reasons[row] != nil { noteRefused(row, former, present) }
        }
        // Every pass reads all pending rows. So what a row adds counts for the rows after it in the same pass.
        var formerCount = 0
        while formerCount < reasons.count {
            formerCount = reasons.count
            try forEachPending { row, former, present in
                guard reasons[row] == nil else { return }
                let lost = keys(of: row, former).subtracting(keys(of: row, present))
                if !missing.isDisjoint(with: references(of: row, present)) || !needed.isDisjoint(with: lost) {
                    reasons[row] = Self.dependsOnRefused
                    noteRefused(row, former, present)
                }
            }
        }
        return reasons
    }

    private static let dependsOnRefused = "it belongs to a row that is refused"

    /// Calls `body` with each pending row: as the store has it, and as it will be.
    private func forEachPending(_ body: (RowReference, _ former: StoredRow?, _ present: StoredRow?) throws -> Void)
        throws
    {
        try pending.forEachDifference { try body($0.row, $0.former, $0.present) }
        for row in try pending.counted {
            let stored = StoredRow(countedIn: try state.schema.table(row.table))
            try body(row, pending.baseCount(row) > 0 ? stored : nil, state.count(row) ?? 0 > 0 ? stored : nil)
        }
    }

    /// The values by which references find a row.
    private func keys(of row: RowReference, _ stored: StoredRow?) -> Set<LookupKey> {
        Set(stored.map { state.schema.parentKeys(of: row, $0) } ?? [])
    }

    /// The values by which the references of a row find others.
    private func references(of row: RowReference, _ stored: StoredRow?) -> [LookupKey] {
        guard let stored else { return [] }
        return stored.table.references.indices.compactMap { index in
            let id = FoldSchema.ReferenceID(table: row.table, index: index)
            return state.schema.childKey(id, of: row, stored).flatMap { state.schema.parentKey(id, $0) }
        }
    }
}
