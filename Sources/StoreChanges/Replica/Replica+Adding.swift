/// New sets of this device.
extension Replica {
    /// Adds a new set of this device, and integrates it.
    func add(_ set: SyncChangeSet) throws -> SyncChangeSet {
        try integrate([set], from: .captured)
        return set
    }

    /// Adds what was captured, as one set or several, and integrates it.
    ///
    /// To integrate a set, a device keeps all of its rows in memory. So many updates, as when an app fills a new column, become several
    /// sets of ``maximumChanges`` each. Only updates that no constraint can concern are moved into sets of their own: for them it's the
    /// same whether they come together or one after the other. A device that has only some of the sets has a valid state too.
    ///
    /// - Parameters:
    ///   - header: The header of the first set.
    ///   - changes: What was captured, in the order of the store.
    /// - Returns: The sets.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func add(_ header: SyncChangeSet.Header, _ changes: [Change]) throws -> [SyncChangeSet] {
        var parts = state.schema.parts(of: changes, of: maximumChanges)[...]
        var sets = [try add(SyncChangeSet(header, parts.removeFirst()))]
        for part in parts {
            var next = try nextHeader(seen: header.seen, at: header.stamp.rawValue)
            next.isMigration = header.isMigration
            sets.append(try add(SyncChangeSet(next, part)))
        }
        return sets
    }
}

extension FoldSchema {
    /// Divides changes into parts of at most `size`; only the first, which has all changes that constraints concern, may be larger.
    fileprivate func parts(of changes: [Change], of size: Int) -> [[Change]] {
        guard changes.count > size else { return [changes] }
        let constrained = changes.count { !isFree($0) }
        var (parts, free) = ([[Change]](), max(0, size - constrained))
        // The first part has all constrained changes, and as many others as it has room for; all in the order of the store.
        let first = changes.filter { change in
            guard isFree(change) else { return true }
            free -= 1
            return free >= 0
        }
        if !first.isEmpty { parts.append(first) }
        let rest = changes.lazy.filter(isFree).dropFirst(max(0, size - constrained))
        for change in rest {
            if parts.count == 1 || parts[parts.count - 1].count == size { parts.append([]) }
            parts[parts.count - 1].append(change)
        }
        return parts
    }

    /// Whether a change is an update that can't violate a constraint: no key, no unique index and no foreign key names its columns.
    ///
    /// `CHECK` constraints don't count: each concerns one row, whose columns stay together.
    private func isFree(_ change: Change) -> Bool {
        guard case .update(let cells) = change.edit, let table = tables[change.table] else { return false }
        let constrained =
            [table.keyColumns] + table.uniques.map(\.columns) + table.references.map { Set($0.key.columns) }
            + table.referencedColumns.map(Set.init)
        return constrained.allSatisfy { $0.isDisjoint(with: cells.keys) }
    }
}
