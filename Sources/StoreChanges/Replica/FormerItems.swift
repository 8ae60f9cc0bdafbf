/// What undoing a set puts back.
struct FormerItems {
    /// An item as it was; `nil` where it didn't exist.
    typealias Former<Key, Item> = (key: Key, item: Item?)

    /// Rows with a key, in the order in which they probably are in a store; their images may be damaged.
    var rows: [Former<RowReference, StoredRow>] = []
    var tombs: [Former<RowReference, StoredTomb>] = []
    var aliases: [Former<AliasKey, Alias>] = []
    var counts: [Former<RowReference, Int>] = []

    init() {}

    // MARK: Coding

    /// The items' bytes.
    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.items(rows) {
            $0.row($1)
        } item: {
            $0.row($1)
        }
        writer.items(tombs) {
            $0.row($1)
        } item: {
            $0.row($1.row)
            $0.counted($1.deleters.encoded)
        }
        writer.items(aliases) {
            $0.text($1.table)
            $0.counted($1.encoded)
        } item: {
            $0.name($1.row)
            $0.set($1.maker)
        }
        writer.items(counts) {
            $0.row($1)
        } item: {
            $0.count($1)
        }
        return writer.bytes
    }

    /// Reads items; those of tables that the schema doesn't have any more are left out.
    init(decoding bytes: [UInt8], _ schema: FoldSchema) throws {
        var parser = ByteParser(bytes)
        rows = try parser.items {
            try $0.reference()
        } item: {
            try $0.row(of: $1.table, schema)
        }
        tombs = try parser.items {
            try $0.reference()
        } item: { parser, key in
            let row = try parser.row(of: key.table, schema)
            let deleters = try Set<SetID>(decoding: parser.bytes())
            return row.map { StoredTomb(row: $0, deleters: deleters) }
        }
        aliases = try parser.items { parser in
            try AliasKey(table: parser.text("a table"), decoding: parser.bytes())
        } item: { parser, _ in
            Alias(row: try parser.name("a row"), maker: try parser.set())
        }
        counts = try parser.items {
            try $0.reference()
        } item: { parser, _ in
            try parser.count("a count", atMost: 1 << ReplicaState.identifierBits)
        }
        rows.removeAll { schema.tables[$0.key.table] == nil }
        tombs.removeAll { schema.tables[$0.key.table] == nil }
    }
}

extension ByteWriter {
    fileprivate mutating func items<Key, Item>(
        _ items: [FormerItems.Former<Key, Item>],
        key: (inout ByteWriter, Key) -> Void,
        item: (inout ByteWriter, Item) -> Void
    ) {
        count(items.count)
        for former in items {
            key(&self, former.key)
            optional(former.item, item)
        }
    }

    fileprivate mutating func row(_ row: RowReference) {
        text(row.table)
        name(row.row)
    }

    fileprivate mutating func row(_ row: StoredRow) {
        counted(row.image)
        counted(row.inserters.encoded)
    }
}

extension ByteParser {
    fileprivate mutating func items<Key, Item>(
        key: (inout ByteParser) throws -> Key,
        item: (inout ByteParser, Key) throws -> Item?
    ) throws -> [FormerItems.Former<Key, Item>] {
        var items: [FormerItems.Former<Key, Item>] = []
        for _ in 0..<(try count("the number of items", atMost: .max)) {
            let key = try key(&self)
            items.append((key, try optional { try item(&$0, key) } ?? nil))
        }
        return items
    }

    fileprivate mutating func reference() throws -> RowReference {
        RowReference(try text("a table"), try name("a row"))
    }

    fileprivate mutating func row(of table: String, _ schema: FoldSchema) throws -> StoredRow? {
        let (image, inserters) = (try bytes(), try Set<SetID>(decoding: bytes()))
        return schema.tables[table].map { StoredRow($0, image, inserters: inserters) }
    }
}
