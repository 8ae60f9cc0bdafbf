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
        let constrained = tables.mapValues(\.constrainedColumns)
        // `CHECK` constraints don't count: each concerns one row, whose columns stay together.
        func isFree(_ change: Change) -> Bool {
            guard case .update(let cells) = change.edit else { return false }
            return constrained[change.table]?.isDisjoint(with: cells.keys) ?? false
        }
        let (free, others) = (changes.filter(isFree), changes.filter { !isFree($0) })
        let room = max(0, size - others.count)
        let rest = stride(from: room, to: free.count, by: size).map { Array(free[$0..<min($0 + size, free.count)]) }
        return [others + free.prefix(room)] + rest
    }
}

extension FoldSchema.Table {
    /// The columns that a key, a unique index or a foreign key names.
    fileprivate var constrainedColumns: Set<String> {
        keyColumns.union(uniques.flatMap(\.columns)).union(references.flatMap(\.key.columns))
            .union(referencedColumns.joined())
    }
}
