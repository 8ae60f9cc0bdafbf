// How the replica's database holds values: as change sets do.

extension SetDigest {
    /// Restores a digest from stored bytes; `nil` if there aren't 32.
    init?(stored bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        self.init(rawValue: bytes)
    }
}

/// What a damaged replica may hold in place of a number or a digest is an error.
extension [StoredValue] {
    /// The number in a column, which is never less than 0.
    func number(_ index: Int) throws -> UInt64 {
        guard let number = integer(index).flatMap({ UInt64(exactly: $0) }) else {
            throw StoreChangesError.damagedReplica
        }
        return number
    }

    /// The name of a row in a column.
    func rowName(_ index: Int) throws -> RowName { try RowName(decoding: bytes(index) ?? []) }

    /// The client in a column.
    func client(_ index: Int) -> ClientID { ClientID(rawValue: text(index) ?? "") }

    /// The digest in a column.
    func digest(_ index: Int) throws -> SetDigest {
        guard let digest = bytes(index).flatMap(SetDigest.init(stored:)) else { throw StoreChangesError.damagedReplica }
        return digest
    }

    /// The number of a set in a column, and its digest in the next one.
    func seenSet(_ index: Int) throws -> SeenSet { SeenSet(try number(index), try digest(index + 1)) }
}

extension StoreChangesError {
    /// The error of a replica with a value that no replica has.
    static let damagedReplica = StoreChangesError(
        .corrupt,
        "This device's record of the store is damaged. Synchronize with --rebuild to build it again."
    )
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
        writer.raw(Self.prefix(kind))
        for cell in cells { writer.cell(cell) }
        return writer.bytes
    }

    /// The encoded keys of a kind that begin with some cells aren't less than the first value, and are less than the second
    /// one.
    static func bounds(of kind: Kind, beginningWith cells: [Cell] = []) -> [StoredValue] {
        var writer = ByteWriter()
        writer.raw(prefix(kind))
        for cell in cells { writer.cell(cell) }
        var second = writer.bytes
        // The first byte, which stands for the kind, is less.
        while second.last == .max { second.removeLast() }
        second[second.count - 1] += 1
        return [.blob(writer.bytes), .blob(second)]
    }

    /// The encoded keys of a kind whose first cell is a value, and no row's name, aren't less than the first value, and are
    /// less than the second one.
    static func boundsOfValues(of kind: Kind) -> [StoredValue] {
        var writer = ByteWriter()
        writer.raw(prefix(kind))
        writer.row(encodedName: [])
        return [.blob(prefix(kind)), .blob(writer.bytes)]
    }

    /// How the encoded keys of a kind begin.
    private static func prefix(_ kind: Kind) -> [UInt8] {
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
}

extension ByteParser {
    mutating func set() throws -> SetID { SetID(ClientID(rawValue: try text("a client")), try number("a sequence")) }

    mutating func optional<Item>(_ parse: (inout ByteParser) throws -> Item) throws -> Item? {
        try byte("whether there is an item") == 0 ? nil : try parse(&self)
    }

    mutating func bytes() throws -> [UInt8] { try raw(count("a length", atMost: Self.maximumValueLength), "bytes") }
}
