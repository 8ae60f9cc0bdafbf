/// The schemas that sets were captured in, and which of them this device's app can use.
struct ReplicaVersions {
    private let db: SQLConnection
    private let own: SchemaDescription
    private let ownDigest: SetDigest

    /// Prepares to compare schemas with the store's.
    init(_ db: SQLConnection, _ own: SchemaDescription) {
        self.db = db
        self.own = own
        ownDigest = own.digest
    }

    /// Remembers the schema of a set.
    ///
    /// - Parameter header: The set's header.
    /// - Returns: Whether the schema, or its description, wasn't known yet, or had a lower number.
    /// - Throws: `DatabaseError`.
    func remember(_ header: SyncChangeSet.Header) throws -> Bool {
        // From its first set on, a schema keeps its number.
        if header.schema.digest == ownDigest { try ReplicaFact.updatedFrom.write(nil, db) }
        return try remember(header.schema, header.schemaDescription)
    }

    @discardableResult
    private func remember(_ version: SchemaVersion, _ description: SchemaDescription?) throws -> Bool {
        guard version.digest != .none else { return false }
        try db.execute(
            """
            INSERT INTO schemas (digest, number, bytes) VALUES (?, ?, ?)
            ON CONFLICT (digest) DO UPDATE
            SET number = max(number, excluded.number), bytes = ifnull(bytes, excluded.bytes)
            WHERE number < excluded.number OR bytes IS NULL AND excluded.bytes IS NOT NULL
            """,
            [
                .blob(version.digest.rawValue), .integer(Int64(clamping: version.number)),
                description.map { .blob($0.encoded) } ?? .null,
            ]
        )
        return db.writtenCount > 0
    }

    /// The version of the store's schema: a schema that no set has yet gets the next number.
    func version() throws -> SchemaVersion {
        if let number = try number(of: ownDigest) { return SchemaVersion(number, ownDigest) }
        let greatest = try db.first("SELECT ifnull(max(number), 0) FROM schemas")?.number(0) ?? 0
        return SchemaVersion(Self.next(greatest), ownDigest)
    }

    private static func next(_ number: UInt64) -> UInt64 { min(number + 1, SchemaVersion.maximumNumber) }

    private func number(of digest: SetDigest) throws -> UInt64? {
        try db.first("SELECT number FROM schemas WHERE digest = ?", [.blob(digest.rawValue)])?.number(0)
    }

    /// Gives the store's schema its number, before another device's schema can take it.
    ///
    /// A schema that no set has yet is the newest one. But if other devices have already had a schema that changes the same
    /// and more, theirs is a later one: this device's app is updated in smaller steps, or later.
    ///
    /// - Parameter former: The schema that the store had before; `nil` if it had none, or has taken a change back.
    /// - Throws: `DatabaseError`.
    func rememberOwn(after former: SchemaDescription?) throws {
        try ReplicaFact.updatedFrom.write(nil, db)
        guard let former, let formerNumber = try number(of: former.digest) else {
            try remember(version(), own)
            return
        }
        let left = try formerLayouts
        let isNew = try number(of: ownDigest) == nil
        if isNew { try ReplicaFact.updatedFrom.write(former.digest.rawValue, db) }
        let later = try isNew ? known().filter { own.isBetween(former, $0) && !left.contains($0.digest) } : []
        // Another device that skipped a version may have given the schema a number that isn't greater than the former one's.
        let number = max(Self.next(formerNumber), later.isEmpty ? try version().number : 0)
        try remember(SchemaVersion(number, ownDigest), own)
        for schema in later { try remember(SchemaVersion(Self.next(number), schema.digest), nil) }
    }

    /// Gives the store's schema its number again, as if the sets that have arrived since its update had arrived before.
    ///
    /// The app may have skipped versions in which these sets were captured. By its first number, its schema could be older than
    /// they are, and it would wait for their edits.
    ///
    /// - Returns: Whether the schema has no set yet, and its update isn't captured: otherwise the number stays.
    /// - Throws: `DatabaseError`.
    func numberAgain() throws -> Bool {
        guard let digest = try ReplicaFact.updatedFrom.read(db).flatMap(SetDigest.init(stored:)),
            let former = try schema(digest)
        else { return false }
        try forgetOwn()
        try rememberOwn(after: former)
        return true
    }

    /// Whether the store's schema is that of an older app than a former schema, and would drop what newer sets wrote.
    ///
    /// An app that takes a change of its schema back has an older schema, too. An update that only adds to the former schema
    /// isn't older, even if another device, which skipped a version, has given it a smaller number.
    func isOlder(than former: SchemaDescription) throws -> Bool {
        guard let number = try number(of: ownDigest), let formerNumber = try self.number(of: former.digest) else {
            return false
        }
        return try number < formerNumber && (isFormer(ownDigest) || !own.isExtension(of: former))
    }

    /// Whether the store had a schema before.
    func isFormer(_ digest: SetDigest) throws -> Bool { try formerLayouts.contains(digest) }

    /// The schemas whose descriptions are known.
    private func known() throws -> [SchemaDescription] {
        try db.all("SELECT bytes FROM schemas WHERE bytes IS NOT NULL").compactMap { values in
            try values.bytes(0).map { try SchemaDescription(decoding: $0) }
        }
    }

    /// The tables and columns that the store's schema has again, and that its former one had no more.
    func namesAddedAgain(since former: SchemaDescription) throws -> [String] {
        let left = try formerLayouts
        return own.namesAddedAgain(since: former, after: try known().filter { left.contains($0.digest) })
    }

    /// Forgets the number of the store's schema, so that it gets the next one.
    func forgetOwn() throws { try db.execute("DELETE FROM schemas WHERE digest = ?", [.blob(ownDigest.rawValue)]) }

    /// Remembers a schema that the store has no more.
    func rememberFormer(_ digest: SetDigest) throws {
        try ReplicaFact.formerLayouts.write((ReplicaFact.formerLayouts.read(db) ?? []) + digest.rawValue, db)
    }

    /// Takes from a former replica the numbers of schemas, and which of them the store had.
    func take(from former: ReplicaVersions) throws {
        for values in try former.db.all("SELECT digest, number, bytes FROM schemas") {
            try remember(
                SchemaVersion(try values.number(1), try values.digest(0)),
                values.bytes(2).map { try SchemaDescription(decoding: $0) }
            )
        }
        for digest in try former.formerLayouts where try !isFormer(digest) { try rememberFormer(digest) }
    }

    /// The schemas that the store had before.
    private var formerLayouts: [SetDigest] { get throws { try digests(.formerLayouts) } }

    /// The columns that the store's tables have or had before.
    private func columnsOfAllLayouts() throws -> [String: Set<String>] {
        try formerLayouts.compactMap(schema).reduce(into: own.columnsByTable) { columns, former in
            columns.merge(former.columnsByTable) { $0.union($1) }
        }
    }

    private func digests(_ fact: ReplicaFact) throws -> [SetDigest] {
        let bytes = try fact.read(db) ?? []
        var parser = ByteParser(bytes)
        return try stride(from: 0, to: bytes.count, by: SetDigest.byteCount).map { _ in
            try parser.digest("the digest of a schema")
        }
    }

    /// The earlier schemas by whose constraints sets are still folded.
    func earlierSchemas() throws -> [SchemaDescription] {
        try digests(.earlierSchemas).compactMap { try schema($0) }
    }

    /// The version for a new set, and the schema itself if the client's last set has another one.
    func versionForCapture(after last: SyncChangeSet.Header?) throws -> (SchemaVersion, SchemaDescription?) {
        (try version(), last?.schema.digest == ownDigest ? nil : own)
    }

    /// The schema of a set, if it's another one than the store's and known.
    func author(of header: SyncChangeSet.Header) throws -> SchemaDescription? {
        header.schema.digest == ownDigest ? nil : try schema(header.schema.digest)
    }

    /// The schema of a digest, if it's known.
    func schema(_ digest: SetDigest) throws -> SchemaDescription? {
        guard digest != ownDigest else { return own }
        return try db.first("SELECT bytes FROM schemas WHERE digest = ?", [.blob(digest.rawValue)])?
            .bytes(0).map { try SchemaDescription(decoding: $0) }
    }

    /// Whether the store has all that a set needs.
    ///
    /// Otherwise the set waits until the app is updated. No set waits for what an update of the app has removed.
    ///
    /// Schemas that differ by additions read each other's sets as far as these don't use the additions. A set that does waits
    /// unless its schema has a smaller number, and lacks something of the store's or uses only what the store had before: then
    /// an update has removed the addition. Of two schemas that differ otherwise, the one with the greater number, then digest,
    /// counts: its sets wait elsewhere.
    ///
    /// - Parameters:
    ///   - set: The set.
    ///   - schema: The store's schema.
    /// - Returns: Whether the set need not wait.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func canRead(_ set: any ChangeSetSource, in schema: FoldSchema) throws -> Bool {
        let version = set.header.schema
        guard version.digest != ownDigest, version.digest != .none, try !isFormer(version.digest) else {
            return true
        }
        guard let author = try author(of: set.header) else { return false }
        let current = try self.version()
        // An update of this device may have found that the other schema is a later one.
        let number = try max(version.number, self.number(of: version.digest) ?? 0)
        if author.isCompatible(with: own) {
            let isEarlier = number < current.number
            if isEarlier, !author.isExtension(of: own) { return true }
            let (changes, defaults) = (try set.decoded().changes, schema.addedDefaults(of: author))
            func has(_ present: [String: Set<String>]) -> Bool {
                changes.allSatisfy { author.needs($0, only: present, defaults) }
            }
            return try has(own.columnsByTable) || isEarlier && has(columnsOfAllLayouts())
        }
        return SchemaVersion(number, version.digest).precedes(current)
    }
}
