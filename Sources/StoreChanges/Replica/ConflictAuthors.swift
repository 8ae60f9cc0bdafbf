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

    /// The other sides of conflicts, in the order of the conflicts.
    ///
    /// Only what can still be undone is searched, the newest set first: what is stable was known to all devices.
    func others(of conflicts: [Conflict]) throws -> [ChangeAuthor?] {
        guard !conflicts.isEmpty else { return [] }
        let aliases = Dictionary(delta.aliases.map { ($0.key, $0.pair.after) }) { first, _ in first }
        var targets = ConflictTargets(try conflicts.map { try target(of: $0, aliases) })
        var authors: [ChangeAuthor?] = Array(repeating: nil, count: conflicts.count)
        try log.forEachIntegratedBackwards { entry in
            let author = ChangeAuthor(entry.header.id, at: entry.header.stamp)
            try log.undo.forEachPart(of: entry.reference) { part in
                for index in targets.take(changedBy: part) { authors[index] = author }
            }
            return !targets.isEmpty
        }
        return authors
    }

    private func target(of conflict: Conflict, _ aliases: [AliasKey: Alias?]) throws -> ConflictTargets.Target {
        let schema = log.state.schema
        var row = conflict.row
        // The other side of a row that was merged as soon as it was inserted is the row that stays.
        if conflict.rule == .merged, try log.state.row(row) == nil,
            let alias = aliases[schema.aliasKey(of: row)] ?? nil
        {
            row.row = alias.row
        }
        let columns = Set(conflict.lost.keys).union(conflict.kept.keys)
        return ConflictTargets.Target(
            row: row,
            state: try log.state.row(row),
            columns: conflict.rule == .merged ? [] : columns
        )
    }
}

/// What conflicts are about whose other sides aren't found yet, by row: a set changed few of many rows.
struct ConflictTargets {
    /// What a conflict is about, before the set.
    struct Target {
        var row: RowReference
        var state: StoredRow?
        /// The columns of the conflict; all of them if it has none.
        var columns: Set<String>
    }

    private var targets: [RowReference: [(index: Int, target: Target)]] = [:]

    init(_ targets: [Target]) {
        for (index, target) in targets.enumerated() { self.targets[target.row, default: []].append((index, target)) }
    }

    /// Whether the other sides of all conflicts are found.
    var isEmpty: Bool { targets.isEmpty }

    /// Takes out the targets to whose rows a set gave what they have, and returns their positions.
    ///
    /// - Parameter former: What the set replaced.
    /// - Returns: The positions.
    mutating func take(changedBy former: FormerItems) -> [Int] {
        former.counts.flatMap { row, _ in take(row) { _ in true } }
            + former.rows.flatMap { row, before in take(row) { $0.isChanged(from: before) } }
    }

    private mutating func take(_ row: RowReference, where isChanged: (Target) -> Bool) -> [Int] {
        guard var known = targets[row] else { return [] }
        let end = known.partition { isChanged($0.target) }
        let found = known[end...].map(\.index)
        targets[row] = end == 0 ? nil : Array(known[..<end])
        return found
    }
}

extension ConflictTargets.Target {
    /// Whether a set that replaced this row gave it what it has.
    fileprivate func isChanged(from before: StoredRow?) -> Bool {
        guard let state, let before else { return true }
        return state.changedColumns(from: before).contains { columns.isEmpty || columns.contains($0) }
    }
}
