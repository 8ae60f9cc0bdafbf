/// What is lost with a client that is removed.
extension Replica {
    /// Integrates sets and remembers news; logs the edits of clients that are now removed, which were integrated here and
    /// don't count any more.
    ///
    /// The device that noted the removal may have seen fewer sets of the client than this one. If the client comes back, it
    /// publishes these edits again; otherwise only the log still has them.
    ///
    /// - Parameters:
    ///   - sets: The sets.
    ///   - news: Heads, baselines and removals.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func learn(_ sets: [any ChangeSetSource], _ news: LogNews) throws {
        let known = try ReplicaKnowledge(db).read().removals
        let removed = Set(news.removals.keys.filter { known[$0] == nil })
        let former =
            try removed.isEmpty
            ? [] : log.entries(.integrated, where: "origin = 0").filter { removed.contains($0.header.id.client) }
        try integrate(sets)
        try remember(news)
        guard !former.isEmpty else { return }
        let void = Set(try log.entries(.void).map(\.reference))
        for entry in former where void.contains(entry.reference) { try logLost(entry) }
    }

    private func logLost(_ entry: LogEntry) throws {
        for change in try log.set(entry.reference)?.changes ?? [] {
            let row = RowReference(change.table, change.row)
            guard let table = state.schema.tables[change.table], state.schema.has(row) else { continue }
            let lost: [String: Cell]
            switch change.edit {
            // The row is back.
            case .delete: continue
            case .insert where state.schema.isCounted(row):
                lost = state.schema.cells(of: row, StoredRow(countedIn: table))
            case .insert(let inserted): lost = inserted.cells
            case .update(let cells): lost = cells.mapValues(\.new)
            }
            let kept = try state.row(row)?.cells.filter { lost[$0.key] != nil } ?? [:]
            try log.insert(
                Conflict(.clientRemoved, row, lost: lost, kept: kept, by: entry.header.id),
                entry.header.stamp,
                nil
            )
        }
    }
}
