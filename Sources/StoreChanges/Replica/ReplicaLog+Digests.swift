/// Digests of the state: each integrated set has the one after it.
///
/// It starts as empty where the document began, and follows each set: the rows with which the document began are in all
/// replicas, and needn't be read.
extension ReplicaLog {
    /// The digest of the state.
    func digest() throws -> StateDigest {
        if let digest = try digest(of: .integrated) ?? digest(of: .stable) { return digest }
        return try ReplicaFact.digestsHaveAllRows.isSet(db) ? digestOfAllRows() : .empty
    }

    /// The digest of the state after the last set of a status; `nil` if there is none, or if it isn't known.
    func digest(of status: Status) throws -> StateDigest? {
        try db.first(
            "SELECT sum FROM sets WHERE status = ? ORDER BY stamp DESC, client DESC, sequence DESC LIMIT 1",
            [.integer(status.rawValue)]
        )?.bytes(0).flatMap(StateDigest.init)
    }

    /// Computes the digest from all rows, because the schema has lost something.
    ///
    /// What a row added to it in the former schema isn't what the row would take away in the new one. So the digests after
    /// earlier sets are forgotten.
    func countDigestAgain() throws {
        try ReplicaFact.digestsHaveAllRows.set(db)
        try db.execute("UPDATE sets SET sum = NULL")
        try db.execute(
            """
            UPDATE sets SET sum = ? WHERE id = (
                SELECT id FROM sets WHERE \(Status.isIntegrated) ORDER BY stamp DESC, client DESC, sequence DESC LIMIT 1
            )
            """,
            [.blob(digestOfAllRows().bytes)]
        )
    }

    private func digestOfAllRows() throws -> StateDigest {
        var digest = StateDigest.empty
        for (name, table) in state.schema.tables {
            let id = try state.table(name)
            try db.forEach("SELECT name, image FROM rows WHERE tbl = ?", [id]) { values in
                let row = RowReference(name, try values.rowName(0))
                digest.add(row, StoredRow(table, values.bytes(1) ?? []), digestKey)
            }
            try db.forEach("SELECT name, count FROM counts WHERE tbl = ?", [id]) { values in
                let row = RowReference(name, try values.rowName(0))
                digest.add(row, count: Int(values.integer(1) ?? 0), state.schema, digestKey)
            }
        }
        return digest
    }
}
