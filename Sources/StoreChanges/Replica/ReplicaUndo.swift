/// What undoing each integrated set puts back, in the replica's database.
///
/// The rows and deleted rows of a large set are in several parts, so that one of them is in memory at a time, and none is too
/// large for SQLite.
struct ReplicaUndo {
    private let state: ReplicaState
    private var db: SQLConnection { state.db }

    init(_ state: ReplicaState) { self.state = state }

    /// About how large a part is, in bytes.
    private static let partSize = 1 << 20

    /// Records what a set replaced.
    func record(_ delta: StateDelta, of set: SetReference) throws {
        var (part, size) = (FormerItems(), 0)
        func endPartIfFull(with row: StoredRow?) throws {
            size += row?.image.count ?? 0
            guard size > Self.partSize else { return }
            try insert(part, of: set)
            (part, size) = (FormerItems(), 0)
        }
        for (row, pair) in delta.rows {
            part.rows.append((row, pair.before))
            try endPartIfFull(with: pair.before)
        }
        for (row, pair) in delta.tombs {
            part.tombs.append((row, pair.before))
            try endPartIfFull(with: pair.before?.row)
        }
        // Counts stay together: a migration may merge them, for which it needs all that one set changed.
        part.aliases = delta.aliases.map { ($0.key, $0.pair.before) }
        part.counts = delta.counts.map { ($0.key, $0.pair.before) }
        try insert(part, of: set)
    }

    private func insert(_ part: FormerItems, of set: SetReference) throws {
        try db.execute(
            "INSERT INTO undo (client, sequence, digest, items) VALUES (?, ?, ?, ?)",
            set.values + [.blob(part.encoded)]
        )
    }

    /// Calls `body` with the parts of what a set replaced.
    func forEachPart(of set: SetReference, _ body: (FormerItems) throws -> Void) throws {
        try db.forEach("SELECT items FROM undo WHERE \(SetReference.condition) ORDER BY id", set.values) { values in
            try body(try FormerItems(decoding: values.bytes(0) ?? [], state.schema))
        }
    }

    /// Changes the parts of what all sets replaced, those of the last set first.
    func rewrite(_ body: (inout FormerItems) throws -> Void) throws {
        for id in try db.all("SELECT id FROM undo ORDER BY id DESC") {
            guard let bytes = try db.first("SELECT items FROM undo WHERE id = ?", id)?.bytes(0) else { continue }
            var part = try FormerItems(decoding: bytes, state.schema)
            try body(&part)
            try db.execute("UPDATE undo SET items = ? WHERE id = ?", [.blob(part.encoded)] + id)
        }
    }

    /// Forgets what a set replaced.
    func remove(_ set: SetReference) throws {
        try db.execute("DELETE FROM undo WHERE \(SetReference.condition)", set.values)
    }
}
