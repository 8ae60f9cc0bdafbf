/// The change sets that arrived, and the order in which they are folded.
struct ReplicaLog {
    private let state: ReplicaState
    private var db: SQLConnection { state.db }

    init(_ state: ReplicaState) { self.state = state }

    /// Adds a set; a set that is known already stays as it is.
    func insert(_ set: SyncChangeSet) throws {
        let bytes = set.encoded
        try db.execute(
            "INSERT OR IGNORE INTO sets (stamp, client, sequence, digest, bytes) VALUES (?, ?, ?, ?, ?)",
            [
                .integer(Int64(set.header.stamp.rawValue)), .text(set.header.id.client.rawValue),
                .integer(Int64(set.header.id.sequence)), .blob(SetDigest(of: bytes).rawValue), .blob(bytes),
            ]
        )
    }

    /// The last set of each client that is integrated.
    func integrated() throws -> [ClientID: SeenSet] {
        var integrated: [ClientID: SeenSet] = [:]
        let rows = try db.all(
            "SELECT client, max(sequence), digest FROM sets WHERE undo IS NOT NULL GROUP BY client"
        )
        for values in rows {
            guard let client = values.text(0), let sequence = values.integer(1), let digest = values.bytes(2) else {
                continue
            }
            integrated[ClientID(rawValue: client)] = SeenSet(UInt64(sequence), SetDigest(rawValue: digest))
        }
        return integrated
    }

    /// Folds the sets that are ready: those whose predecessor, and all of whose seen sets, are integrated.
    ///
    /// The state afterwards is the fold of all integrated sets in the total order, whatever was integrated before.
    func integrate() throws {
        var ready = try takeReady()
        guard let first = ready.map(\.header.position).min() else { return }
        for position in try positions(after: first).reversed() { ready.append(try undo(position)) }
        for set in ready.sorted(by: { $0.header.position < $1.header.position }) { try fold(set) }
    }

    private func takeReady() throws -> [SyncChangeSet] {
        var waiting = try db.all("SELECT bytes FROM sets WHERE undo IS NULL").map {
            try SyncChangeSet(decoding: $0.bytes(0) ?? [])
        }
        var vector = try integrated().mapValues(\.sequence)
        var ready: [SyncChangeSet] = []
        var found = true
        while found {
            found = false
            for (index, set) in waiting.enumerated().reversed() {
                let header = set.header
                guard vector[header.id.client, default: 0] + 1 == header.id.sequence,
                    header.seen.allSatisfy({
                        $0.key == header.id.client || vector[$0.key, default: 0] >= $0.value.sequence
                    })
                else { continue }
                vector[header.id.client] = header.id.sequence
                ready.append(waiting.remove(at: index))
                found = true
            }
        }
        return ready
    }

    private func positions(after position: SetPosition) throws -> [SetPosition] {
        try db.all(
            """
            SELECT stamp, client, sequence FROM sets
            WHERE undo IS NOT NULL AND (stamp, client, sequence) > (?, ?, ?) ORDER BY stamp, client, sequence
            """,
            key(position)
        ).map {
            SetPosition(
                Stamp(rawValue: UInt64($0.integer(0) ?? 0)),
                SetID(ClientID(rawValue: $0.text(1) ?? ""), UInt64($0.integer(2) ?? 0))
            )
        }
    }

    private func key(_ position: SetPosition) -> [StoredValue] {
        [
            .integer(Int64(position.stamp.rawValue)), .text(position.id.client.rawValue),
            .integer(Int64(position.id.sequence)),
        ]
    }

    // MARK: Folding and undoing

    private func fold(_ set: SyncChangeSet) throws {
        let (delta, conflicts) = try Fold(state.schema).apply(set, to: state)
        let pending = ReplicaPending(state)
        for (row, pair) in delta.rows.sorted(by: { $0.key.comesBefore($1.key) }) {
            try state.replace(row, pair.before, by: pair.after)
        }
        for (row, pair) in delta.counts {
            try pending.keepCount(row)
            try state.write(row, count: pair.after)
            try pending.settleCount(row)
        }
        for (row, pair) in delta.tombs { try state.write(row, tomb: pair.after) }
        for (key, pair) in delta.aliases { try state.write(key, pair.after) }
        let numbers = ReplicaNumbers(state)
        for change in set.changes {
            guard case .insert(let row) = change.edit, let wish = row.wish else { continue }
            try numbers.setWish(wish, of: RowReference(change.table, change.row))
        }
        try db.execute(
            "UPDATE sets SET undo = ? WHERE stamp = ? AND client = ? AND sequence = ?",
            [.blob(delta.encodedFormerItems)] + key(set.header.position)
        )
        for conflict in conflicts { try insert(conflict) }
    }

    private func undo(_ position: SetPosition) throws -> SyncChangeSet {
        let values = try db.first(
            "SELECT bytes, undo FROM sets WHERE stamp = ? AND client = ? AND sequence = ?",
            key(position)
        )
        let former = try FormerItems(decoding: values?.bytes(1) ?? [])
        let pending = ReplicaPending(state)
        for (row, before) in former.rows { try state.replace(row, try state.row(row), by: before) }
        for (row, before) in former.counts {
            try pending.keepCount(row)
            try state.write(row, count: before)
            try pending.settleCount(row)
        }
        for (row, before) in former.tombs { try state.write(row, tomb: before) }
        for (key, before) in former.aliases { try state.write(key, before) }
        try db.execute(
            "UPDATE sets SET undo = NULL WHERE stamp = ? AND client = ? AND sequence = ?",
            key(position)
        )
        try db.execute(
            "DELETE FROM conflicts WHERE client = ? AND sequence = ?",
            [.text(position.id.client.rawValue), .integer(Int64(position.id.sequence))]
        )
        return try SyncChangeSet(decoding: values?.bytes(0) ?? [])
    }

    private func insert(_ conflict: Conflict) throws {
        try db.execute(
            "INSERT INTO conflicts (client, sequence, rule, tbl, name, lost, kept) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                .text(conflict.set.client.rawValue), .integer(Int64(conflict.set.sequence)),
                .text(conflict.rule.rawValue),
                try state.table(conflict.row.table), .blob(conflict.row.row.encoded), .blob(conflict.lost.encoded),
                .blob(conflict.kept.encoded),
            ]
        )
    }
}
