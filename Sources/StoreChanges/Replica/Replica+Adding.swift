/// New sets of this device.
extension Replica {
    /// Adds a new set of this device, and integrates it.
    func add(_ set: SyncChangeSet) throws -> SyncChangeSet {
        try integrate([set], from: .captured)
        try ReplicaFact.tokenIsOld.writeNumber(1, db)
        return set
    }

    /// Adds what was captured, as one set or several, and integrates it.
    ///
    /// To integrate a set, a device keeps all of its rows in memory. So many changes, as when an app imports rows or fills a new column,
    /// become several sets of ``maximumChanges`` each: as if the user had made them one after the other, and the app's store had been
    /// valid after each set. So a device that has only some of the sets has a valid state too.
    ///
    /// - Parameters:
    ///   - header: The header of the first set.
    ///   - changes: What was captured, in the order of the store.
    /// - Returns: The sets.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func add(_ header: SyncChangeSet.Header, _ changes: [Change]) throws -> [SyncChangeSet] {
        var parts = state.schema.parts(of: changes, isMigration: header.isMigration, of: maximumChanges)[...]
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
    /// Divides changes into parts of at most `size`; only the part with all changes that must stay together may be larger.
    fileprivate func parts(of changes: [Change], isMigration: Bool, of size: Int) -> [[Change]] {
        guard changes.count > size else { return [changes] }
        let (constrained, hidden) = (tables.mapValues(\.constrainedColumns), tablesWithHiddenReferences)
        let places = Dictionary(grouping: changes) { change in
            // What a migration inserts or counts is compared with what other devices did, but not with each other.
            if isMigration, isCounted(RowReference(change.table, change.row)) { return Place.middle }
            if isMigration, case .insert = change.edit { return Place.middle }
            return hidden.contains(change.table) ? .middle : place(of: change, constrained)
        }
        let (early, late) = (places[.early] ?? [], places[.late] ?? [])
        // The rest of the early changes fills the middle part, so that no part is empty.
        let first = early.runs(of: size, from: 0).dropLast()
        let middle = early.dropFirst(first.count * size) + (places[.middle] ?? [])
        let room = max(0, size - middle.count)
        return first + [Array(middle + late.prefix(room))] + late.runs(of: size, from: room)
    }

    /// The tables with references that lead to, or are, columns that don't travel: generated ones.
    private var tablesWithHiddenReferences: Set<String> {
        var found: Set<String> = []
        for table in tables.values {
            guard table.references.count < table.schema.references.count else { continue }
            found.formUnion([table.schema.name] + table.schema.references.map(\.parent))
        }
        return found
    }

    /// When a change takes effect among all that were captured together.
    private enum Place {
        /// Before the others.
        case early
        /// With all that constraints may tie to it.
        case middle
        /// After the others.
        case late
    }

    /// Where a change can stand so that all constraints hold after each part.
    ///
    /// `CHECK` constraints don't count: each concerns one row, whose columns stay together.
    private func place(of change: Change, _ constrained: [String: Set<String>]) -> Place {
        guard let table = tables[change.table] else { return .middle }
        // Another change may need a row to which a reference can lead, or need it gone.
        let isReferenced = !table.incoming.isEmpty
        switch change.edit {
        // Its unique values may be another row's from then on. What a CASCADE deletes stays with the row from which it came.
        case .delete(let row): return isReferenced || !row.parents.isEmpty ? .middle : .early
        // Its unique values and the rows to which it refers are there by then.
        case .insert: return isReferenced ? .middle : .late
        case .update(let cells):
            return constrained[change.table]?.isDisjoint(with: cells.keys) ?? false ? .late : .middle
        }
    }
}

extension FoldSchema.Table {
    /// The columns that a key, a unique index or a foreign key names.
    fileprivate var constrainedColumns: Set<String> {
        keyColumns.union(uniques.flatMap(\.columns)).union(references.flatMap(\.key.columns))
            .union(referencedColumns.joined())
    }
}

extension [Change] {
    /// The changes from `start` on, in runs of `size`; the last may be shorter.
    fileprivate func runs(of size: Int, from start: Int) -> [[Change]] {
        stride(from: start, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}
