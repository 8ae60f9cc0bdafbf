/// Which sets count, which weren't captured here, and how many there are.
extension ReplicaLog {
    /// The last set of each client that fulfils a condition in SQL.
    ///
    /// Each client's sets are searched from its last one on: the log has all sets that ever arrived.
    static func knownSets(
        _ db: SQLConnection,
        where condition: String = "true",
        _ values: [StoredValue] = []
    ) throws -> [ClientID: SeenSet] {
        let sql = """
            WITH RECURSIVE clients (name) AS (
                SELECT min(client) FROM sets
                UNION ALL SELECT (SELECT min(client) FROM sets WHERE client > name) FROM clients WHERE name IS NOT NULL
            )
            SELECT client, sequence, digest FROM clients JOIN sets ON id = (
                SELECT id FROM sets WHERE client = name AND (\(condition)) ORDER BY sequence DESC, digest LIMIT 1
            )
            """
        return try db.all(sql, values).reduce(into: [:]) { known, values in
            known[values.client(0)] = try values.seenSet(1)
        }
    }

    /// The number of the sets that aren't stable, and their size in bytes: every checkpoint has them.
    func size() throws -> (sets: UInt64, bytes: Int64) {
        let values = try db.first("SELECT count(*), sum(length(bytes)) FROM sets WHERE \(Status.isNotStable)")
        return (UInt64(values?.integer(0) ?? 0), values?.integer(1) ?? 0)
    }

    /// Whether a set is there that fulfils a condition in SQL.
    func has(_ reference: SetReference, where condition: String = "true") throws -> Bool {
        try db.first("SELECT 1 FROM sets WHERE \(SetReference.condition) AND \(condition)", reference.values) != nil
    }

    /// Whether a set is integrated.
    func counts(_ reference: SetReference) throws -> Bool { try has(reference, where: Status.isIntegrated) }

    /// Whether a set was void when the sets were judged last.
    func isVoid(_ reference: SetReference) throws -> Bool { try has(reference, where: Status.isVoid) }

    private func has(_ position: SetPosition, where condition: String) throws -> Bool {
        try db.first("SELECT 1 FROM sets WHERE \(SetPosition.condition) AND \(condition)", position.values) != nil
    }

    /// Whether a set of a number and a time is integrated.
    func counts(_ set: SetID, at stamp: Stamp) throws -> Bool {
        try has(SetPosition(stamp, set), where: Status.isIntegrated)
    }

    /// Whether a set of a number and a time is void; another one of both may be integrated.
    func isVoid(_ set: SetID, at stamp: Stamp) throws -> Bool {
        try has(SetPosition(stamp, set), where: Status.isVoid)
    }

    /// The sets of a status that weren't captured here.
    func foreignSets(_ status: Status) throws -> Set<SetReference> {
        let rows = try db.all(
            "SELECT client, sequence, digest FROM sets WHERE status = ? AND \(Origin.isForeign)",
            [.integer(status.rawValue)]
        )
        return Set(try rows.map { SetReference($0.client(0), try $0.seenSet(1)) })
    }
}
