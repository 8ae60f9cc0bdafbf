/// What is lost with a client that is removed.
extension Replica {
    /// Integrates sets and remembers news; logs the edits of clients that are now removed, which were integrated here and
    /// don't count any more.
    ///
    /// The device that noted the removal may have seen fewer sets of the client than this one. If the client comes back, it
    /// publishes these edits again; otherwise only the log still has them. If these new sets arrive together with the
    /// removal, new rows with integer keys are logged nevertheless, because they have other names then.
    ///
    /// - Parameters:
    ///   - sets: The sets.
    ///   - news: Heads, baselines and removals.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func learn(_ sets: [any ChangeSetSource], _ news: LogNews) throws {
        let former = try setsOfClients(removedBy: news)
        try integrate(sets)
        try remember(news)
        guard !former.isEmpty else { return }
        let void = Set(try log.entries(.void).map(\.reference))
        try logLost(former.filter { void.contains($0.reference) }, of: log)
    }

    /// Logs the edits that a former replica had integrated, and that a removal takes back which that one doesn't know.
    ///
    /// - Parameters:
    ///   - former: The replica from which this one was built again.
    ///   - news: What this one remembers.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func logEditsLost(from former: Replica, by news: LogNews) throws {
        let integrated = try log.integrated()
        let lost = try former.setsOfClients(removedBy: news).filter { entry in
            let (client, sequence) = (entry.header.id.client, entry.header.id.sequence)
            return sequence > max(news.removals[client] ?? .max, integrated[client]?.sequence ?? 0)
        }
        try logLost(lost, of: former.log)
    }

    /// The integrated sets of other devices whose removal is news, in the total order.
    private func setsOfClients(removedBy news: LogNews) throws -> [LogEntry] {
        let known = try ReplicaKnowledge(db).read().removals
        let removed = Set(news.removals.keys.filter { known[$0] == nil })
        guard !removed.isEmpty else { return [] }
        return try log.entries(.integrated, where: "origin = 0").filter { removed.contains($0.header.id.client) }
    }

    /// What sets that don't count any more made of a row.
    private struct LostEdit {
        var cells: [String: Cell] = [:]
        /// How often a row without a key was inserted more than it was deleted.
        var count = 1
        /// The last set that changed the row.
        var entry: LogEntry
    }

    /// Logs what sets made of each row, unless the row has it.
    ///
    /// - Parameters:
    ///   - entries: The sets, in the total order.
    ///   - source: The log that has them.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    private func logLost(_ entries: [LogEntry], of source: ReplicaLog) throws {
        var edits: [RowReference: LostEdit] = [:]
        for entry in entries {
            guard let set = try source.set(entry.reference) else { continue }
            var fold = SetFold(set.header, FoldWorkspace(state, state.schema))
            for change in set.changes where state.schema.tables[change.table] != nil {
                let named = RowReference(change.table, change.row)
                guard state.schema.has(named) else { continue }
                let row = try fold.lead(named).0
                edits[row] = try lostEdit(change.edit, of: row, in: entry, after: edits[row])
            }
        }
        let sorted = edits.sorted {
            ($0.value.entry.header.position, $0.key) < ($1.value.entry.header.position, $1.key)
        }
        for (row, edit) in sorted {
            let present = try state.row(row)?.cells
            let kept = present?.filter { edit.cells[$0.key] != nil } ?? [:]
            guard present == nil || kept != edit.cells else { continue }
            let (set, stamp) = (edit.entry.header.id, edit.entry.header.stamp)
            for _ in 0..<max(edit.count, 0) {
                try log.insert(Conflict(.clientRemoved, row, lost: edit.cells, kept: kept, by: set), stamp, nil)
            }
        }
    }

    /// What is lost of a row after another edit; `nil` if the row was deleted, because then it's back.
    private func lostEdit(
        _ edit: Edit,
        of row: RowReference,
        in entry: LogEntry,
        after former: LostEdit?
    ) throws -> LostEdit? {
        guard !state.schema.isCounted(row) else {
            let stored = StoredRow(countedIn: try state.schema.table(row.table))
            let count = (former?.count ?? 0) + (edit.isDelete ? -1 : 1)
            return LostEdit(cells: state.schema.cells(of: row, stored), count: count, entry: entry)
        }
        switch edit {
        case .delete: return nil
        case .insert(let inserted): return LostEdit(cells: inserted.cells, entry: entry)
        case .update(let cells):
            return LostEdit(cells: (former?.cells ?? [:]).merging(cells.mapValues(\.new)) { $1 }, entry: entry)
        }
    }
}
