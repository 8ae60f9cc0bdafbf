/// Rows that are gone.
extension Capture {
    /// Refuses to take it for deletions if more than half of a large table's rows are gone, unless that is allowed.
    func refuseMassDeletion(
        _ counts: RowCounts,
        outOf count: Int,
        _ table: StoreTable,
        _ allowsDeletions: Bool
    ) throws {
        guard allowsDeletions || count <= 100 || counts.deleted * 2 <= count else {
            throw StoreChangesError(
                .massDeletion,
                """
                \(counts.deleted) of \(count) rows of \(table.name) are gone since the last synchronization. If they were \
                deleted on purpose, synchronize with --allow-deletions; otherwise restore the store.
                """
            )
        }
    }

    /// The deleted rows to which a deleted row referred with `ON DELETE CASCADE`.
    func parents(
        _ row: RowReference,
        _ stored: StoredRow,
        among deletedParents: [LookupKey: [RowReference]]
    ) throws -> Set<RowReference> {
        let keys = outgoing(of: try state.schema.table(row.table)).filter(cascades)
            .compactMap { state.schema.childKey($0, of: row, stored) }
        return Set(keys.flatMap { deletedParents[$0] ?? [] })
    }

    /// The deleted rows to which references with `ON DELETE CASCADE` can lead, by the keys of these references.
    func deletedParents() throws -> [LookupKey: [RowReference]] {
        var parents: [LookupKey: [RowReference]] = [:]
        for row in deleted {
            let incoming = try state.schema.table(row.table).incoming.filter(cascades)
            guard !incoming.isEmpty, let stored = try base(ofDeleted: row) else { continue }
            for id in incoming {
                guard let key = state.schema.childKey(id, leadingTo: row, stored) else { continue }
                parents[key, default: []].append(row)
            }
        }
        return parents
    }

    /// A deleted row as it was in the store; `nil` once its delete is noted.
    ///
    /// The state may have other values by now.
    func base(ofDeleted row: RowReference) throws -> StoredRow? {
        try ReplicaPending(state).base(row).map { StoredRow(try state.schema.table(row.table), $0) }
    }

    /// Whether deleted rows of a table are noted once all tables are compared.
    ///
    /// Only then is it known which rows they have taken with them or were taken with, and which rows still refer to them.
    func isNotedLast(_ table: FoldSchema.Table) -> Bool {
        !table.incoming.isEmpty || outgoing(of: table).contains(where: cascades)
    }

    private func outgoing(of table: FoldSchema.Table) -> some Collection<FoldSchema.ReferenceID> {
        table.references.indices.lazy.map { FoldSchema.ReferenceID(table: table.schema.name, index: $0) }
    }

    private func cascades(_ id: FoldSchema.ReferenceID) -> Bool {
        state.schema.tables[id.table]?.references[id.index].key.onDelete == .cascade
    }
}
