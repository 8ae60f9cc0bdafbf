/// New sets of this device.
extension Replica {
    /// Adds a new set of this device, and integrates it.
    func add(_ set: SyncChangeSet) throws -> [OwnSet] {
        let references = try integrate([set], from: .captured)
        try ReplicaFact.tokenIsOld.writeNumber(1, db)
        return references.map { OwnSet($0, changeCount: set.changes.count) }
    }

    /// Adds what was captured, as one set or several, and integrates it.
    ///
    /// - Parameters:
    ///   - header: The header of the first set.
    ///   - changes: What was captured.
    /// - Returns: The sets.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func add(_ header: SyncChangeSet.Header, _ changes: CapturedChanges) throws -> [OwnSet] {
        var (changes, sets) = (changes, [OwnSet]())
        try changes.forEachSet { changes in
            guard !sets.isEmpty else { return sets += try add(SyncChangeSet(header, changes)) }
            var next = try nextHeader(seen: header.seen, at: header.stamp.rawValue)
            next.isMigration = header.isMigration
            sets += try add(SyncChangeSet(next, changes))
        }
        return sets
    }
}
