/// What is lost with sets that don't count any more.
extension Replica {
    /// Integrates sets and remembers news; logs the edits of other devices that don't count any more.
    ///
    /// These are edits that were integrated here until now, and edits of sets under this device's own identity that it
    /// didn't capture itself: it captured others of their numbers after it was restored from a backup. A device that still
    /// has such a set as its own publishes the edits again; otherwise only the log has them.
    ///
    /// - Parameters:
    ///   - sets: The sets.
    ///   - news: Heads, baselines and removals.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func learn(_ sets: [any ChangeSetSource], _ news: LogNews) throws {
        for set in sets { _ = try insert(set, .otherDevice) }
        try note(news)
        // Without news, no set is judged, and none is read.
        guard try ReplicaFact.unjudged.isSet(db) else { return try integrateInserted() }
        let (integrated, void) = (try log.foreignSets(.integrated), try log.foreignSets(.void))
        try integrateInserted()
        let lost = try log.entries(.void, where: ReplicaLog.Origin.isForeign).filter { entry in
            integrated.contains(entry.reference) || entry.id.client == client && !void.contains(entry.reference)
        }
        try logLost(lost, of: log)
    }

    /// Logs the edits that a former replica had integrated, and that don't count in this one, which is built from sets that
    /// the former one may not have.
    ///
    /// - Parameter former: The replica from which this one was built again.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func logEditsLost(from former: Replica) throws {
        let (integrated, judgement) = (try log.integrated(), try log.judgement())
        let lost = try former.log.entries(.integrated, where: ReplicaLog.Origin.isForeign).filter { entry in
            guard try !log.counts(entry.reference) else { return false }
            let (client, sequence) = (entry.id.client, entry.id.sequence)
            return judgement.isVoid(entry.reference) || sequence <= integrated[client]?.sequence ?? 0
        }
        try logLost(lost, of: former.log)
        let own = try log.entries(.void, where: ReplicaLog.Origin.isForeign).filter { entry in
            try entry.id.client == client && !former.log.has(entry.reference)
        }
        try logLost(own, of: log)
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
        guard !entries.isEmpty else { return }
        var edits: [RowReference: LostEdit] = [:]
        for entry in entries {
            guard let set = try source.set(entry.reference) else { continue }
            var fold = SetFold(set.header, FoldWorkspace(state, state.schema))
            for change in set.changes where state.schema.tables[change.table] != nil {
                guard state.schema.has(change.reference) else { continue }
                let row = try fold.lead(change.reference).0
                edits[row] = try lostEdit(change.edit, of: row, in: entry, after: edits[row])
            }
        }
        let sorted = edits.sorted { ($0.value.entry.position, $0.key) < ($1.value.entry.position, $1.key) }
        let removals = try ReplicaKnowledge(db).read().removals
        for (row, edit) in sorted {
            let present = try state.row(row)?.cells
            let kept = present?.filter { edit.cells[$0.key] != nil } ?? [:]
            guard present == nil || kept != edit.cells else { continue }
            let (set, stamp) = (edit.entry.id, edit.entry.header.stamp)
            let isRemoved = removals[set.client].map { set.sequence > $0 } ?? false
            let rule = isRemoved ? Conflict.Rule.clientRemoved : .setVoid
            for _ in 0..<max(edit.count, 0) {
                try log.insert(Conflict(rule, row, lost: edit.cells, kept: kept, by: set), stamp, nil)
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
