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
        var state: RowState?
        /// The columns of the conflict; all of them if it has none.
        var columns: Set<String>
        var author: ChangeAuthor?
    }

    /// The other sides of conflicts, in the order of the conflicts.
    ///
    /// Only what can still be undone is searched, the newest set first: what is stable was known to all devices.
    func others(of conflicts: [Conflict]) throws -> [ChangeAuthor?] {
        guard !conflicts.isEmpty else { return [] }
        var targets = try conflicts.map(target)
        for entry in try log.entries(.integrated).reversed() where targets.contains(where: { $0.author == nil }) {
            let former = try log.formerItems(of: entry)
            for (index, target) in targets.enumerated() where target.author == nil && target.isChanged(by: former) {
                targets[index].author = ChangeAuthor(entry.header.id, at: entry.header.stamp)
            }
        }
        return targets.map(\.author)
    }

    private func target(of conflict: Conflict) throws -> Target {
        let schema = log.state.schema
        var row = conflict.row
        // The other side of a row that was merged as soon as it was inserted is the row that stays.
        if conflict.rule == .merged, try stateBefore(row) == nil,
            let alias = delta.aliases[schema.aliasKey(of: row)]?.after
        {
            row.row = alias.row
        }
        let columns = Set(conflict.lost.keys).union(conflict.kept.keys)
        return Target(row: row, state: try stateBefore(row), columns: conflict.rule == .merged ? [] : columns)
    }

    private func stateBefore(_ row: RowReference) throws -> RowState? {
        if let pair = delta.rows[row] { return pair.before }
        return try log.state.row(row)
    }
}

extension ConflictAuthors.Target {
    /// Whether a set that replaced these items gave the row what it has.
    fileprivate func isChanged(by former: FormerItems) -> Bool {
        if former.counts[row] != nil { return true }
        guard let before = former.rows[row] else { return false }
        guard let state, let before else { return true }
        return state.cells.contains { column, cell in
            (columns.isEmpty || columns.contains(column)) && before.cells[column] != cell
        }
    }
}
