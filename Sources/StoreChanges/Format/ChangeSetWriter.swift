import ByteCoding

/// Writes a change set piece by piece, so that no more than the largest row is in memory.
///
/// Changes come grouped by table, the tables in the order of their names:
///
/// ```swift
/// var writer = ChangeSetWriter(header)
/// try writer.beginTable("notes", columns: ["body", "title"])
/// writer.append(name, .insert(row))
/// let bytes = writer.finish()
/// ```
package struct ChangeSetWriter {
    static let magic = Array("SSCS".utf8)
    static let version: UInt8 = 1

    private var writer = ByteWriter()
    private var table: (name: String, columns: [String])?

    /// Begins a set.
    package init(_ header: SyncChangeSet.Header) {
        writer.raw(Self.magic)
        writer.byte(Self.version)
        writer.text(header.id.client.rawValue)
        writer.number(header.id.sequence)
        writer.raw(header.predecessor.rawValue)
        writer.number(header.stamp.rawValue)
        writer.count(header.seen.count)
        for (client, seen) in header.seen.sorted(by: { $0.key < $1.key }) {
            writer.text(client.rawValue)
            writer.number(seen.sequence)
            writer.raw(seen.digest.rawValue)
        }
        writer.number(header.schema.number)
        writer.raw(header.schema.digest.rawValue)
        writer.byte(header.isMigration ? 1 : 0)
        writer.counted(header.schemaDescription?.encoded ?? [])
    }

    /// Begins the changes of a table.
    ///
    /// - Parameters:
    ///   - name: The table's name, greater than the last table's.
    ///   - columns: The names of the columns outside the key, in ascending order. An inserted row has them all, or none of
    ///     them if it has no key.
    package mutating func beginTable(_ name: String, columns: [String]) {
        precondition(table.map { $0.name.precedes(name) } ?? true, "tables are written in the order of their names")
        endTable()
        table = (name, columns)
        writer.byte(1)
        writer.text(name)
        writer.count(columns.count)
        for column in columns { writer.text(column) }
    }

    private mutating func endTable() {
        if table.take() != nil { writer.byte(0) }
    }

    /// Writes a change of the current table.
    package mutating func append(_ name: RowName, _ edit: Edit) {
        guard let table else { preconditionFailure("a change outside a table") }
        switch edit {
        case .insert(let row):
            writer.byte(row.cells.isEmpty && !table.columns.isEmpty ? 4 : 1)
            writer.name(name)
            append(row, row.cells.isEmpty ? [] : table.columns)
        case .update(let cells):
            writer.byte(2)
            writer.name(name)
            append(cells, table.columns)
        case .delete(let row):
            writer.byte(row.left.isEmpty ? 3 : 5)
            writer.name(name)
            append(row)
        }
    }

    private mutating func append(_ row: InsertedRow, _ columns: [String]) {
        writer.byte(row.wish == nil ? 0 : 1)
        if let wish = row.wish { writer.signed(wish) }
        writer.count(row.dangling.count)
        for column in row.dangling.sorted(by: { $0.precedes($1) }) { writer.text(column) }
        for column in columns {
            guard let cell = row.cells[column] else { preconditionFailure("an inserted row without column \(column)") }
            writer.cell(cell)
        }
    }

    private mutating func append(_ cells: [String: UpdatedCell], _ columns: [String]) {
        writer.count(cells.count)
        for (index, column) in columns.enumerated() {
            guard let cell = cells[column] else { continue }
            writer.count(index)
            var flags: UInt8 = 0
            if cell.isDangling { flags |= 1 }
            if cell.putsBack { flags |= 2 }
            if case .digest = cell.old { flags |= 4 }
            writer.byte(flags)
            writer.cell(cell.new)
            switch cell.old {
            case .cell(let old): writer.cell(old)
            case .digest(let digest): writer.raw(digest.rawValue)
            }
        }
    }

    private mutating func append(_ row: DeletedRow) {
        writer.raw(row.image.rawValue)
        append(row.parents)
        if !row.left.isEmpty { append(row.left) }
    }

    private mutating func append(_ rows: Set<RowReference>) {
        writer.count(rows.count)
        for row in rows.sorted() {
            writer.text(row.table)
            writer.name(row.row)
        }
    }

    /// Removes and returns the bytes written so far, to write them elsewhere.
    package mutating func take() -> [UInt8] { writer.take() }

    /// Ends the set, and returns the bytes that weren't taken.
    package mutating func finish() -> [UInt8] {
        endTable()
        writer.byte(0)
        return writer.take()
    }
}

extension String {
    /// Whether its UTF-8 is less than another's, which is the same on every platform.
    func precedes(_ other: String) -> Bool { utf8.lexicographicallyPrecedes(other.utf8) }
}

extension SyncChangeSet.Header {
    /// The bytes of a set with this header and no changes.
    var encoded: [UInt8] { SyncChangeSet(self, []).encoded }

    init(decoding bytes: [UInt8]) throws { self = try SyncChangeSet(decoding: bytes).header }
}

extension SyncChangeSet {
    /// The set's bytes.
    ///
    /// Tables that no change names are absent. All inserted rows of a table have the same columns.
    package var encoded: [UInt8] {
        var writer = ChangeSetWriter(header)
        for (table, changes) in Dictionary(grouping: changes, by: \.table).sorted(by: { $0.key.precedes($1.key) }) {
            writer.beginTable(table, columns: changes.columns)
            for change in changes { writer.append(change.row, change.edit) }
        }
        return writer.finish()
    }
}

extension [Change] {
    /// The columns that the changes name, in ascending order.
    fileprivate var columns: [String] {
        var columns: Set<String> = []
        for change in self {
            switch change.edit {
            case .insert(let row): columns.formUnion(row.cells.keys)
            case .update(let cells): columns.formUnion(cells.keys)
            case .delete: break
            }
        }
        return columns.sorted { $0.precedes($1) }
    }
}
