/// The integrated sets that were captured together with a change of the schema.
///
/// Each is read once, however many sets of the same change follow it.
struct MigrationSets {
    private var entries: [LogEntry]
    private var read: [SetReference: SyncChangeSet] = [:]

    /// Begins with the sets that are integrated and can be undone, in the total order.
    init(_ integrated: some Sequence<LogEntry>) { entries = integrated.filter(\.header.isMigration) }

    /// Adds a set that was integrated.
    mutating func add(_ entry: LogEntry) {
        if entry.header.isMigration { entries.append(entry) }
    }

    /// The sets that were captured together with a change to the same schema, and that the author of a set hadn't seen.
    ///
    /// All others may be stable, and then they aren't kept.
    ///
    /// - Parameters:
    ///   - header: The set's header.
    ///   - set: Reads a set; `nil` if its bytes are gone.
    /// - Returns: The sets, in the total order; none if the set itself wasn't captured together with a change of the schema.
    /// - Throws: What `set` throws.
    mutating func unseen(
        by header: SyncChangeSet.Header,
        _ set: (SetReference) throws -> SyncChangeSet?
    ) rethrows -> [SyncChangeSet] {
        guard header.isMigration else { return [] }
        let unseen = entries.filter {
            $0.header.schema.digest == header.schema.digest && !header.hasSeen($0.header.id)
        }
        return try unseen.compactMap { entry in
            if let known = read[entry.reference] { return known }
            read[entry.reference] = try set(entry.reference)
            return read[entry.reference]
        }
    }

    /// The schemas of all sets that the author of a set hadn't seen.
    func schemas(unseenBy header: SyncChangeSet.Header, _ versions: ReplicaVersions) throws -> [SchemaDescription] {
        let digests = Set(entries.filter { !header.hasSeen($0.header.id) }.map(\.header.schema.digest))
        return try digests.compactMap { try versions.schema($0) }
    }
}
