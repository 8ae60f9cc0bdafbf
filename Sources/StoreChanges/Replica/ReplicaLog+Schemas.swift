/// Which schemas hold at each position of the total order.
extension ReplicaLog {
    /// Prepares the state for folding sets by the constraints of their time.
    ///
    /// - Parameter ready: The sets that are to be integrated, in the total order.
    /// - Throws: `DatabaseError`.
    func prepareConstraints(for ready: [LogEntry]) throws {
        state.readEarlier(try versions.earlierSchemas())
        var greatest = try GreatestSchema(stable: db)
        var digests = Set([greatest.version?.digest].compactMap(\.self))
        for entry in ready {
            greatest.add(entry.header.schema)
            if let version = greatest.version { digests.insert(version.digest) }
        }
        let earlier = try digests.sorted { $0.rawValue.lexicographicallyPrecedes($1.rawValue) }
            .compactMap { try versions.schema($0) }.filter { !$0.hasConstraints(of: state.schema.description) }
        guard earlier != state.schema.earlier.map(\.description) else { return }
        try state.prepare(for: earlier)
        try ReplicaFact.earlierSchemas.write(earlier.flatMap(\.digest.rawValue), db)
    }

    /// Whether the store's schema is greater than the greatest schema of all integrated sets, and not compatible with it.
    func hasNewSchema() throws -> Bool {
        var greatest = try GreatestSchema(stable: db)
        for entry in try entries(.integrated) { greatest.add(entry.header.schema) }
        guard let former = greatest.version, let schema = try versions.schema(former.digest) else { return false }
        greatest.add(try versions.version())
        return greatest.version != former && !schema.isCompatible(with: state.schema.description)
    }
}

/// The greatest version of a schema among sets in the total order.
struct GreatestSchema {
    /// The version; `nil` as long as no set has one.
    private(set) var version: SchemaVersion?

    /// The version at the end of the stable sets.
    init(stable db: SQLConnection) throws {
        guard let bytes = try ReplicaFact.stableSchema.read(db) else { return }
        var parser = ByteParser(bytes)
        version = SchemaVersion(try parser.number("the schema's number"), try parser.digest("the schema's digest"))
    }

    /// Adds the version of another set.
    mutating func add(_ other: SchemaVersion) {
        guard other.digest != .none else { return }
        version = version.map { $0.precedes(other) ? other : $0 } ?? other
    }

    /// Remembers the version as that at the end of the stable sets.
    func write(_ db: SQLConnection) throws {
        guard let version else { return }
        var writer = ByteWriter()
        writer.number(version.number)
        writer.raw(version.digest.rawValue)
        try ReplicaFact.stableSchema.write(writer.bytes, db)
    }
}

extension SchemaVersion {
    /// Whether another version is greater: by its number, then by its digest.
    func precedes(_ other: SchemaVersion) -> Bool {
        number == other.number
            ? digest.rawValue.lexicographicallyPrecedes(other.digest.rawValue) : number < other.number
    }
}
