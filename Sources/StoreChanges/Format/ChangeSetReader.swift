/// Reads the changes of a set one after the other, so that one of them is in memory at a time.
///
/// Only the one form that ``ChangeSetWriter`` writes is accepted, so that no two forms of a set have two digests.
struct ChangeSetReader {
    /// The largest number of columns of a table: SQLite's own limit.
    static let maximumColumns = 32_767
    /// The largest number of clients that a set may have seen.
    static let maximumClients = 65_536

    /// Everything but the changes.
    let header: SyncChangeSet.Header

    private var parser: ByteParser
    private var table: (name: String, columns: [String])?
    private var lastTable: String?
    /// The columns that changes of the table have named so far; `nil` before its first change.
    private var usedColumns: Set<String>?

    /// Reads the beginning of a set.
    ///
    /// - Parameter bytes: The set's bytes.
    /// - Throws: ``StoreChangesError`` with `corrupt` or `unsupportedFormat`.
    init(_ bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        header = try Self.header(&parser)
        self.parser = parser
    }

    private static func header(_ parser: inout ByteParser) throws -> SyncChangeSet.Header {
        guard try parser.raw(ChangeSetWriter.magic.count, "the beginning") == ChangeSetWriter.magic else {
            throw parser.malformed("it isn't a change set")
        }
        let version = try parser.byte("the version")
        guard version == ChangeSetWriter.version else {
            throw StoreChangesError(
                .unsupportedFormat,
                "A change set has version \(version) of its format, and this program knows \(ChangeSetWriter.version). Update this program."
            )
        }
        let client = try client(&parser)
        let sequence = try sequence(&parser)
        let predecessor = try parser.digest("the digest of the previous set")
        let stamp = Stamp(rawValue: try parser.number("the stamp"))
        guard stamp <= Stamp.maximum else { throw parser.malformed("the stamp is too great") }
        let seen = try seen(&parser)
        let schema = SchemaVersion(try parser.number("the schema's number"), try parser.digest("the schema's digest"))
        guard schema.number <= SchemaVersion.maximumNumber else {
            throw parser.malformed("the schema's number is too great")
        }
        var header = SyncChangeSet.Header(
            id: SetID(client, sequence),
            predecessor: predecessor,
            stamp: stamp,
            seen: seen,
            schema: schema
        )
        let flags = try parser.byte("the flags of a set")
        guard flags <= 1 else { throw parser.malformed("a set has the unknown flags \(flags)") }
        header.isMigration = flags == 1
        header.schemaDescription = try description(schema, &parser)
        return header
    }

    private static func description(
        _ schema: SchemaVersion,
        _ parser: inout ByteParser
    ) throws -> SchemaDescription? {
        let length = try parser.count("the length of the schema", atMost: SchemaDescription.maximumLength)
        let bytes = try parser.raw(length, "the schema")
        guard !bytes.isEmpty else { return nil }
        guard SetDigest(of: bytes) == schema.digest else { throw parser.malformed("the schema has another digest") }
        return try SchemaDescription(decoding: bytes)
    }

    private static func client(_ parser: inout ByteParser) throws -> ClientID {
        let client = try parser.text("a client")
        guard !client.isEmpty else { throw parser.malformed("a client has no name") }
        return ClientID(rawValue: client)
    }

    private static func sequence(_ parser: inout ByteParser) throws -> UInt64 {
        let sequence = try parser.number("a sequence")
        guard sequence > 0 else { throw parser.malformed("a sequence is 0") }
        guard sequence <= SetID.maximumSequence else { throw parser.malformed("a sequence is too great") }
        return sequence
    }

    private static func seen(_ parser: inout ByteParser) throws -> [ClientID: SeenSet] {
        var seen: [ClientID: SeenSet] = [:]
        var last: ClientID?
        for _ in 0..<(try parser.count("the number of clients", atMost: maximumClients)) {
            let client = try client(&parser)
            guard last.map({ $0 < client }) ?? true else { throw parser.malformed("the clients aren't in order") }
            last = client
            seen[client] = SeenSet(try sequence(&parser), try parser.digest("the digest of a set"))
        }
        return seen
    }

    // MARK: Changes

    /// Reads the next change; `nil` at the end of the set, after which there must be nothing.
    ///
    /// Then it must not be called again.
    ///
    /// - Throws: ``StoreChangesError`` with `corrupt`.
    mutating func next() throws -> Change? {
        while true {
            if let current = table {
                let kind = try parser.byte("the kind of a change")
                if kind != 0 { return try change(kind, current) }
                guard let usedColumns, usedColumns.count == current.columns.count else {
                    throw parser.malformed("a table has columns or a name that no change needs")
                }
                table = nil
            } else {
                switch try parser.byte("the beginning of a table") {
                case 0:
                    guard parser.isAtEnd else { throw parser.malformed("there are bytes after the end") }
                    return nil
                case 1:
                    table = try nextTable()
                    usedColumns = nil
                case let kind: throw parser.malformed("a table begins with \(kind)")
                }
            }
        }
    }

    private mutating func nextTable() throws -> (name: String, columns: [String]) {
        let name = try parser.text("the name of a table")
        guard lastTable.map({ $0.precedes(name) }) ?? true else { throw parser.malformed("the tables aren't in order") }
        lastTable = name
        return (name, try columnNames("the number of columns"))
    }

    private mutating func columnNames(_ what: String) throws -> [String] {
        var columns: [String] = []
        for _ in 0..<(try parser.count(what, atMost: Self.maximumColumns)) {
            let column = try parser.text("the name of a column")
            guard columns.last.map({ $0.precedes(column) }) ?? true else {
                throw parser.malformed("the columns aren't in order")
            }
            columns.append(column)
        }
        return columns
    }

    private mutating func change(_ kind: UInt8, _ table: (name: String, columns: [String])) throws -> Change {
        guard (1...5).contains(kind) else { throw parser.malformed("a change is of the unknown kind \(kind)") }
        guard kind != 4 || !table.columns.isEmpty else { throw parser.malformed("a row lacks no cells") }
        let name = try parser.name("the name of a row")
        if usedColumns == nil { usedColumns = [] }
        let edit: Edit =
            switch kind {
            case 1: .insert(try insertedRow(table.columns))
            case 2: .update(try updatedCells(table.columns))
            case 4: .insert(try insertedRow([]))
            default: .delete(try deletedRow(leavesReferences: kind == 5))
            }
        return Change(table.name, name, edit)
    }

    private mutating func insertedRow(_ columns: [String]) throws -> InsertedRow {
        let flags = try parser.byte("the flags of a row")
        guard flags <= 1 else { throw parser.malformed("a row has the unknown flags \(flags)") }
        let wish = flags == 1 ? try parser.signed("the number of a row") : nil
        let dangling = try columnNames("the number of dangling references")
        var cells: [String: Cell] = [:]
        for column in columns { cells[column] = try parser.cell("a cell") }
        usedColumns?.formUnion(columns)
        return InsertedRow(cells: cells, wish: wish, dangling: Set(dangling))
    }

    private mutating func index(after last: Int?, _ columns: [String]) throws -> Int {
        let index = try parser.count("the index of a column", atMost: Self.maximumColumns)
        guard index < columns.count, index > last ?? -1 else { throw parser.malformed("there is no column \(index)") }
        return index
    }

    private mutating func updatedCells(_ columns: [String]) throws -> [String: UpdatedCell] {
        var cells: [String: UpdatedCell] = [:]
        var last: Int?
        for _ in 0..<(try parser.count("the number of cells", atMost: columns.count)) {
            let index = try index(after: last, columns)
            last = index
            let flags = try parser.byte("the flags of a cell")
            guard flags < 8 else { throw parser.malformed("a cell has the unknown flags \(flags)") }
            let new = try parser.cell("a cell")
            let old: OldCell =
                flags & 4 == 0
                ? .cell(try parser.cell("a former cell")) : .digest(try parser.digest("a former cell"))
            guard old.isCanonical else { throw parser.malformed("a former cell is too large") }
            usedColumns?.insert(columns[index])
            cells[columns[index]] = UpdatedCell(
                from: old,
                to: new,
                isDangling: flags & 1 != 0,
                putsBack: flags & 2 != 0
            )
        }
        guard !cells.isEmpty else { throw parser.malformed("an update changes nothing") }
        return cells
    }

    private mutating func deletedRow(leavesReferences: Bool) throws -> DeletedRow {
        let image = try parser.digest("the digest of a row")
        let parents = try rows("parents", atMost: Self.maximumColumns)
        let left = leavesReferences ? try rows("rows that refer to a deleted one", atMost: .max) : []
        guard leavesReferences != left.isEmpty else { throw parser.malformed("a delete leaves no references") }
        return DeletedRow(image: image, parents: parents, left: left)
    }

    private mutating func rows(_ what: String, atMost maximum: Int) throws -> Set<RowReference> {
        var rows: [RowReference] = []
        for _ in 0..<(try parser.count("the number of \(what)", atMost: maximum)) {
            let row = RowReference(try parser.text("the name of a table"), try parser.name("the name of a row"))
            guard rows.last.map({ $0 < row }) ?? true else { throw parser.malformed("the \(what) aren't in order") }
            rows.append(row)
        }
        return Set(rows)
    }
}

extension OldCell {
    /// The largest encoded value that is given itself, in bytes.
    static let maximumValueLength = 32

    /// Describes what a cell held: references themselves, because the rows may be merged to which they refer.
    package init(_ cell: Cell) {
        self = OldCell(digesting: cell.encoded[...]) ?? .cell(cell)
    }

    /// Describes an encoded cell by its digest; `nil` if the cell is given itself.
    init?(digesting encoded: ArraySlice<UInt8>) {
        guard encoded.count > Self.maximumValueLength, encoded.first != ByteWriter.rowTag else { return nil }
        self = .digest(SetDigest(of: encoded))
    }

    fileprivate var isCanonical: Bool {
        guard case .cell(let cell) = self else { return true }
        return OldCell(cell) == self
    }
}

extension SyncChangeSet {
    /// Reads a set from its bytes.
    ///
    /// - Throws: ``StoreChangesError`` with `corrupt` or `unsupportedFormat`.
    package init(decoding bytes: [UInt8]) throws {
        var reader = try ChangeSetReader(bytes)
        var changes: [Change] = []
        while let change = try reader.next() { changes.append(change) }
        self.init(reader.header, changes)
    }
}
