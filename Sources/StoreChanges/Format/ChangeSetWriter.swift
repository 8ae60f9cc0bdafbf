/// Writes a change set: its header, then the changes of one table after the other.
struct ChangeSetWriter {
    static let magic = Array("SSCS".utf8)
    static let version: UInt8 = 1

    private var writer = ByteWriter()

    /// Begins a set.
    init(_ header: SyncChangeSet.Header) {
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

    /// Writes the changes of a table, whose name is greater than the last table's.
    ///
    /// An inserted row has all columns that the changes name, or none of them if it has no key.
    mutating func append(_ changes: [Change], of table: String) {
        let columns = changes.columns
        writer.byte(1)
        writer.text(table)
        writer.count(columns.count)
        for column in columns { writer.text(column) }
        for change in changes { append(change, columns) }
        writer.byte(0)
    }

    private mutating func append(_ change: Change, _ columns: [String]) {
        switch change.edit {
        case .insert(let row):
            writer.byte(row.cells.isEmpty && !columns.isEmpty ? 4 : 1)
            writer.name(change.row)
            append(row, row.cells.isEmpty ? [] : columns)
        case .update(let cells):
            writer.byte(2)
            writer.name(change.row)
            append(cells, columns)
        case .delete(let row):
            writer.byte(row.left.isEmpty ? 3 : 5)
            writer.name(change.row)
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

    /// Ends the set, and returns its bytes.
    mutating func finish() -> [UInt8] {
        writer.byte(0)
        return writer.bytes
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
            writer.append(changes, of: table)
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
