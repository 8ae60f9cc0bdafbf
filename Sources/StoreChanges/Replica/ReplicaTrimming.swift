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
        for entry in integrated where entry.position <= prefix.position {
            try trim(try log.formerItems(of: entry), prefix)
            try log.setStatus(.stable, of: entry.reference)
        }
        // Own sets stay, because their owner may have to publish them again.
        try state.db.execute(
            "UPDATE sets SET bytes = NULL WHERE status = 3 AND origin = 0 AND client <> ? AND bytes IS NOT NULL",
            [.text(client.rawValue)]
        )
        try state.db.execute("UPDATE sets SET undo = NULL WHERE status = 3 AND undo IS NOT NULL")
        try ReplicaKnowledge(state.db).setStable(prefix)
    }

    /// Trims the items that a stable set changed.
    private func trim(_ items: FormerItems, _ prefix: StablePrefix) throws {
        for row in items.rows.keys {
            guard let former = try state.row(row) else { continue }
            var present = former
            if present.trim(prefix) { try state.replace(row, former, by: present) }
        }
        for row in items.tombs.keys {
            guard var tomb = try state.tomb(row) else { continue }
            let isTrimmed = tomb.row.trim(prefix)
            if prefix.containsAny(of: tomb.deleters) {
                try state.write(row, tomb: nil)
            } else if isTrimmed {
                try state.write(row, tomb: tomb)
            }
        }
        for key in items.aliases.keys {
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

extension RowState {
    /// Removes stable inserters, and returns whether there were any.
    package mutating func trim(_ prefix: StablePrefix) -> Bool {
        guard prefix.containsAny(of: inserters) else { return false }
        inserters = inserters.filter { !prefix.contains($0) }
        return true
    }
}

extension FormerItems {
    /// Removes what the stable prefix made superfluous since the items were recorded.
    mutating func trim(_ prefix: StablePrefix) {
        for (row, item) in rows {
            guard var present = item, present.trim(prefix) else { continue }
            rows.updateValue(present, forKey: row)
        }
        for (row, item) in tombs {
            guard var tomb = item else { continue }
            let isTrimmed = tomb.row.trim(prefix)
            if prefix.containsAny(of: tomb.deleters) {
                tombs.updateValue(nil, forKey: row)
            } else if isTrimmed {
                tombs.updateValue(tomb, forKey: row)
            }
        }
        for (key, item) in aliases {
            if let alias = item, prefix.contains(alias.maker) { aliases.updateValue(nil, forKey: key) }
        }
    }
}
