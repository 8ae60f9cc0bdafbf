// How the replica's database holds values: as change sets do.

extension FoldSchema {
    /// The cells of a row as the replica stores them, in the order of the columns' names.
    func encode(_ cells: [String: Cell], of table: String) -> [UInt8] {
        var writer = ByteWriter()
        for column in tables[table]?.valueColumns ?? [] {
            writer.cell(cells[column] ?? tables[table]?.defaults[column] ?? .null)
        }
        return writer.bytes
    }

    func cells(decoding bytes: [UInt8], of table: String) throws -> [String: Cell] {
        var parser = ByteParser(bytes)
        var cells: [String: Cell] = [:]
        for column in tables[table]?.valueColumns ?? [] { cells[column] = try parser.cell("a stored cell") }
        return cells
    }
}

extension RowName {
    init(decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        self = try parser.name("a stored name")
    }
}

extension Set<SetID> {
    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.count(count)
        for set in sorted(by: { ($0.client, $0.sequence) < ($1.client, $1.sequence) }) { writer.set(set) }
        return writer.bytes
    }

    init(decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        self.init()
        for _ in 0..<(try parser.count("the number of sets", atMost: .max)) { insert(try parser.set()) }
    }
}

extension [String: Cell] {
    /// Cells with the names of their columns.
    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.count(count)
        for (column, cell) in sorted(by: { $0.key.precedes($1.key) }) {
            writer.text(column)
            writer.cell(cell)
        }
        return writer.bytes
    }

    init(decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        self.init()
        for _ in 0..<(try parser.count("the number of cells", atMost: .max)) {
            let column = try parser.text("a column")
            self[column] = try parser.cell("a cell")
        }
    }
}

extension AliasKey {
    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.count(columns.count)
        for (column, cell) in zip(columns, cells) {
            writer.text(column)
            writer.cell(cell)
        }
        return writer.bytes
    }

    init(table: String, decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        self.init(table: table, columns: [], cells: [])
        for _ in 0..<(try parser.count("the number of columns", atMost: .max)) {
            columns.append(try parser.text("a column"))
            cells.append(try parser.cell("a cell"))
        }
    }
}

extension LookupKey {
    /// The key without its table, the kind first.
    var encoded: [UInt8] {
        var writer = ByteWriter()
        switch kind {
        case .unique(let index):
            writer.byte(0)
            writer.count(index)
        case .list(let index):
            writer.byte(1)
            writer.count(index)
        case .child(let index):
            writer.byte(2)
            writer.count(index)
        case .parent(let columns):
            writer.byte(3)
            writer.count(columns.count)
            for column in columns { writer.text(column) }
        }
        for cell in cells { writer.cell(cell) }
        return writer.bytes
    }
}

extension ByteWriter {
    mutating func set(_ set: SetID) {
        text(set.client.rawValue)
        number(set.sequence)
    }

    mutating func optional<Item>(_ item: Item?, _ write: (inout ByteWriter, Item) -> Void) {
        byte(item == nil ? 0 : 1)
        if let item { write(&self, item) }
    }

    mutating func row(_ row: RowState) {
        counted(row.cells.encoded)
        counted(row.inserters.encoded)
    }
}

extension ByteParser {
    init(_ bytes: [UInt8]) {
        var rest: [UInt8]? = bytes
        self.init { rest.take() ?? [] }
    }

    mutating func set() throws -> SetID { SetID(ClientID(rawValue: try text("a client")), try number("a sequence")) }

    mutating func optional<Item>(_ parse: (inout ByteParser) throws -> Item) throws -> Item? {
        try byte("whether there is an item") == 0 ? nil : try parse(&self)
    }

    mutating func bytes() throws -> [UInt8] { try raw(count("a length", atMost: Self.maximumValueLength), "bytes") }

    mutating func row() throws -> RowState {
        let cells = try [String: Cell](decoding: bytes())
        return RowState(cells: cells, inserters: try Set<SetID>(decoding: bytes()))
    }
}

// MARK: - Undoing

/// What undoing a set puts back.
struct FormerItems {
    var rows: [RowReference: RowState?] = [:]
    var tombs: [RowReference: Tomb?] = [:]
    var aliases: [AliasKey: Alias?] = [:]
    var counts: [RowReference: Int?] = [:]

    init() {}

    /// The items that a change replaced.
    init(_ delta: StateDelta) {
        rows = delta.rows.mapValues(\.before)
        tombs = delta.tombs.mapValues(\.before)
        aliases = delta.aliases.mapValues(\.before)
        counts = delta.counts.mapValues(\.before)
    }

    /// The items' bytes.
    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.count(rows.count)
        for (row, item) in rows {
            writer.text(row.table)
            writer.name(row.row)
            writer.optional(item) { $0.row($1) }
        }
        writer.count(tombs.count)
        for (row, item) in tombs {
            writer.text(row.table)
            writer.name(row.row)
            writer.optional(item) {
                $0.row($1.row)
                $0.counted($1.deleters.encoded)
            }
        }
        writer.count(aliases.count)
        for (key, item) in aliases {
            writer.text(key.table)
            writer.counted(key.encoded)
            writer.optional(item) {
                $0.name($1.row)
                $0.set($1.maker)
            }
        }
        writer.count(counts.count)
        for (row, item) in counts {
            writer.text(row.table)
            writer.name(row.row)
            writer.count(item ?? 0)
        }
        return writer.bytes
    }

    init(decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        func reference() throws -> RowReference {
            RowReference(try parser.text("a table"), try parser.name("a row"))
        }
        for _ in 0..<(try parser.count("the number of rows", atMost: .max)) {
            let row = try reference()
            rows.updateValue(try parser.optional { try $0.row() }, forKey: row)
        }
        for _ in 0..<(try parser.count("the number of tombs", atMost: .max)) {
            let row = try reference()
            let tomb = try parser.optional { parser in
                Tomb(row: try parser.row(), deleters: try Set<SetID>(decoding: parser.bytes()))
            }
            tombs.updateValue(tomb, forKey: row)
        }
        for _ in 0..<(try parser.count("the number of aliases", atMost: .max)) {
            let table = try parser.text("a table")
            let key = try AliasKey(table: table, decoding: parser.bytes())
            let alias = try parser.optional { Alias(row: try $0.name("a row"), maker: try $0.set()) }
            aliases.updateValue(alias, forKey: key)
        }
        for _ in 0..<(try parser.count("the number of counts", atMost: .max)) {
            let row = try reference()
            let count = try parser.count("a count", atMost: .max)
            counts.updateValue(count == 0 ? nil : count, forKey: row)
        }
    }
}
