/// Own sets that don't count: this device takes them back, or captures their edits again.
extension ReplicaLog {
    /// The clients as which this device has captured sets that no other device knows, while other devices know others of
    /// their numbers; and the first number of each.
    ///
    /// Stable sets, of which a log may have many, aren't searched: other devices know them.
    func contradictedSets() throws -> [(client: StoredValue, first: StoredValue)] {
        try db.all(
            """
            SELECT client, min(sequence) FROM sets own
            WHERE \(Origin.isCaptured) AND \(Status.isNotStable) AND EXISTS (
                SELECT 1 FROM sets other
                WHERE other.client = own.client AND other.sequence = own.sequence AND other.digest <> own.digest
                AND \(Status.isNotVoid) AND \(Origin.isShared)
            ) GROUP BY client
            """
        ).map { ($0[0], $0[1]) }
    }

    /// Takes sets back that no other device knows: they don't count from the next judgement on.
    ///
    /// - Parameters:
    ///   - condition: Which of them, in SQL.
    ///   - values: The values of the condition's parameters.
    /// - Returns: Whether there were any.
    /// - Throws: `DatabaseError`.
    func withdraw(where condition: String, _ values: [StoredValue]) throws -> Bool {
        let unpublished = "\(Origin.isCaptured) AND \(condition)"
        guard try db.first("SELECT 1 FROM sets WHERE \(unpublished)", values) != nil else { return false }
        try db.execute("UPDATE sets SET origin = \(Origin.withdrawn.rawValue) WHERE \(unpublished)", values)
        try markUnjudged()
        return true
    }

    /// A vector without withdrawn sets, which no other device will ever have.
    func withoutWithdrawn(_ seen: [ClientID: SeenSet]) throws -> [ClientID: SeenSet] {
        var kept: [ClientID: SeenSet] = [:]
        for (client, last) in seen {
            var last: SeenSet? = last
            while let set = last, try has(SetReference(client, set), where: Origin.isWithdrawn) {
                let header = try header(SetReference(client, set))
                last = header.flatMap { set.sequence > 1 ? SeenSet(set.sequence - 1, $0.predecessor) : nil }
            }
            kept[client] = last
        }
        return kept
    }

    /// Notes that the edits of a void set are in a later one.
    ///
    /// A set that no other device knows is forgotten.
    func noteCapturedAgain(_ set: SetReference) throws {
        let condition = SetReference.condition
        try db.execute("DELETE FROM sets WHERE \(condition) AND \(Origin.isWithdrawn)", set.values)
        try db.execute("UPDATE sets SET origin = \(Origin.capturedAgain.rawValue) WHERE \(condition)", set.values)
        try markUnjudged()
    }
}
