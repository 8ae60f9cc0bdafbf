/// Finds out which devices the other sides of conflicts are: those whose sets last changed the rows before.
struct ConflictAuthors {
    private let log: ReplicaLog
    private let delta: StateDelta

    /// Prepares a search.
    ///
    /// - Parameters:
    ///   - log: The log, without the set that is being integrated.
    ///   - delta: What this set changes.
    init(_ log: ReplicaLog, _ delta: StateDelta) {
        self.log = log
        self.delta = delta
    }

    /// What a conflict is about, before the set.
    fileprivate struct Target {
        var row: RowReference
        var state: StoredRow?
        /// The columns of the conflict; all of them if it has none.
        var columns: Set<String>
        var author: ChangeAuthor?
    }

    /// The other sides of conflicts, in the order of the conflicts.
    ///
    /// Only what can still be undone is searched, the newest set first: what is stable was known to all devices.
    func others(of conflicts: [Conflict]) throws -> [ChangeAuthor?] {
        guard !conflicts.isEmpty else { return [] }
        let aliases = Dictionary(delta.aliases.map { ($0.key, $0.pair.after) }) { first, _ in first }
        var targets = try conflicts.map { try target(of: $0, aliases) }
        try log.forEachIntegratedBackwards { entry in
            try log.undo.forEachPart(of: entry.reference) { part in
                let former = FormerRows(part)
                for (index, target) in targets.enumerated() where target.author == nil && target.isChanged(by: former) {
                    targets[index].author = ChangeAuthor(entry.header.id, at: entry.header.stamp)
                }
            }
            return targets.contains { $0.author == nil }
        }
        return targets.map(\.author)
    }

    private func target(of conflict: Conflict, _ aliases: [AliasKey: Alias?]) throws -> Target {
        let schema = log.state.schema
        var row = conflict.row
        // The other side of a row that was merged as soon as it was inserted is the row that stays.
        if conflict.rule == .merged, try log.state.row(row) == nil,
            let alias = aliases[schema.aliasKey(of: row)] ?? nil
        {
            row.row = alias.row
        }
        let columns = Set(conflict.lost.keys).union(conflict.kept.keys)
        return Target(row: row, state: try log.state.row(row), columns: conflict.rule == .merged ? [] : columns)
    }
}

/// The rows that a set replaced, as they were.
private struct FormerRows {
    let rows: [RowReference: StoredRow?]
    let counted: Set<RowReference>

    init(_ items: FormerItems) {
        rows = Dictionary(items.rows.map { ($0.key, $0.item) }) { first, _ in first }
        counted = Set(items.counts.map(\.key))
    }
}

extension ConflictAuthors.Target {
    /// Whether a set that replaced these items gave the row what it has.
    fileprivate func isChanged(by former: FormerRows) -> Bool {
        if former.counted.contains(row) { return true }
        guard let before = former.rows[row] else { return false }
        guard let state, let before else { return true }
        return state.changedColumns(from: before).contains { columns.isEmpty || columns.contains($0) }
    }
}
