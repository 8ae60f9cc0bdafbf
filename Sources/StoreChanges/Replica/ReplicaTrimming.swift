/// Forgets what no set can need any more, because every client has seen it.
///
/// Undo images go, aliases and inserters of stable sets, and a tomb as soon as a deleter of it is stable. No result
/// depends on them: each later set has seen the stable sets, so it knows of the inserts and deletes, and uses the
/// present names.
struct ReplicaTrimming {
    private let log: ReplicaLog
    private var state: ReplicaState { log.state }

    init(_ log: ReplicaLog) { self.log = log }

    /// Advances the stable prefix as far as the remembered heads allow.
    ///
    /// - Parameters:
    ///   - client: This device.
    ///   - storeSeen: What the store has seen.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func trim(for client: ClientID, storeSeen: [ClientID: SeenSet]) throws {
        let judgement = try log.judgement()
        let integrated = try log.entries(.integrated)
        guard let prefix = judgement.stablePrefix(of: integrated, for: client, storeSeen: storeSeen) else { return }
        var greatestSchema = try GreatestSchema(stable: state.db)
        for entry in integrated where entry.position <= prefix.position {
            greatestSchema.add(entry.header.schema)
            try log.undo.forEachPart(of: entry.reference) { try trim($0, prefix) }
            try log.undo.remove(entry.reference)
            try log.setStatus(.stable, of: entry.reference)
        }
        try greatestSchema.write(state.db)
        // Own sets stay, because their owner may have to publish them again, until baselines contain them. A void set that
        // comes before the end of the prefix never counts again. The unary + keeps SQLite from searching by status: it
        // searches only the sets that have bytes.
        try state.db.execute(
            """
            UPDATE sets SET bytes = NULL
            WHERE (+\(ReplicaLog.Status.isStable) OR +\(ReplicaLog.Status.isVoid) AND \(SetPosition.isUpTo))
            AND \(ReplicaLog.Origin.isForeign) AND client <> ? AND bytes IS NOT NULL
            """,
            prefix.position.values + [.text(client.rawValue)]
        )
        let former = judgement.knowledge.stable
        guard prefix != former else { return }
        try log.forgetHeaders(before: prefix.vector, since: former?.vector ?? [:])
        try ReplicaKnowledge(state.db).setStable(prefix)
        try log.markUnjudged()
    }

    /// Trims the items that a stable set changed.
    private func trim(_ items: FormerItems, _ prefix: StablePrefix) throws {
        for (row, _) in items.rows {
            guard let former = try state.row(row) else { continue }
            var present = former
            if present.inserters.trim(prefix) { try state.replace(row, former, by: present) }
        }
        for (row, _) in items.tombs {
            guard var tomb = try state.tomb(row) else { continue }
            let isTrimmed = tomb.row.inserters.trim(prefix)
            if prefix.containsAny(of: tomb.deleters) {
                try state.write(row, tomb: nil)
            } else if isTrimmed {
                try state.write(row, tomb: tomb)
            }
        }
        for (key, _) in items.aliases {
            guard let alias = try state.alias(key), prefix.contains(alias.maker) else { continue }
            try state.write(key, nil)
        }
    }
}

extension StablePrefix {
    /// Whether a set that counts is in the prefix.
    package func contains(_ set: SetID) -> Bool { set.sequence <= vector[set.client]?.sequence ?? 0 }

    package func containsAny(of sets: Set<SetID>) -> Bool { sets.contains(where: contains) }
}

extension Set<SetID> {
    /// Removes stable sets, and returns whether there were any.
    package mutating func trim(_ prefix: StablePrefix) -> Bool {
        guard prefix.containsAny(of: self) else { return false }
        self = filter { !prefix.contains($0) }
        return true
    }
}

extension FormerItems {
    /// Removes what the stable prefix made superfluous since the items were recorded.
    mutating func trim(_ prefix: StablePrefix) {
        for index in rows.indices { _ = rows[index].item?.inserters.trim(prefix) }
        for index in tombs.indices {
            _ = tombs[index].item?.row.inserters.trim(prefix)
            if let tomb = tombs[index].item, prefix.containsAny(of: tomb.deleters) { tombs[index].item = nil }
        }
        for index in aliases.indices {
            if let alias = aliases[index].item, prefix.contains(alias.maker) { aliases[index].item = nil }
        }
    }
}
