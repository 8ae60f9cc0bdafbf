/// A row that the user has just restored: it was deleted, or held other values.
///
/// Neither its number nor its values tell that it's the same row, so only the capture that follows at once knows. If the
/// process dies before that, the next capture may take it for a new row.
struct RowWrittenAgain {
    /// The row, by the name that all devices know.
    var row: RowReference
    /// Its integer key in the store.
    var number: Int64
}

/// The names of rows with integer keys in a store, as a capture needs them: row after row, and for every reference.
///
/// A row that the user inserted gets its name when it's first met, in its table or in a reference to it.
final class RowNames {
    private let store: SQLConnection
    private let state: ReplicaState
    private let pending: ReplicaPending
    fileprivate let numbers: ReplicaNumbers
    private let client: ClientID
    private let writtenAgain: RowWrittenAgain?
    /// When the store was last written, in milliseconds since 1970.
    var time: UInt64 = 0
    private var tables: [String: ReferencedNames] = [:]
    private var rowStatements: [String: SQLStatement] = [:]
    /// The names after it are those of rows that this capture found new.
    private let lastCounter: Int64
    /// Found for the first row that has no name.
    private var foundRestoredRows: RestoredRows?

    /// Prepares to name rows.
    ///
    /// - Parameters:
    ///   - store: A connection in a read transaction.
    ///   - state: The replica, in a write transaction.
    ///   - client: Who inserted the rows that have no name yet. The rows of the first baseline have their numbers as names.
    ///   - writtenAgain: A row that gets its former name.
    /// - Throws: `DatabaseError`.
    init(
        in store: SQLConnection,
        _ state: ReplicaState,
        by client: ClientID,
        writtenAgain: RowWrittenAgain? = nil
    ) throws {
        self.store = store
        self.state = state
        self.client = client
        self.writtenAgain = writtenAgain
        pending = ReplicaPending(state)
        numbers = ReplicaNumbers(state)
        lastCounter = try numbers.lastCounter()
    }

    /// The names of a table's rows, as references need them.
    func referenced(_ table: String) throws -> ReferencedNames {
        if let known = tables[table] { return known }
        let key = state.schema.tables[table]?.schema.key.columns.first ?? "rowid"
        let sql = "SELECT 1 FROM \(table.quotedName) WHERE \(key.quotedName) = ?"
        let names = ReferencedNames(of: table, try store.prepare(sql), self)
        tables[table] = names
        return names
    }

    /// The name of a row of the store.
    func name(of number: Int64, in table: String) throws -> RowName {
        try RowName(decoding: encodedName(ofRow: number, in: table))
    }

    /// The encoded name of a row of the store.
    func encodedName(ofRow number: Int64, in table: String) throws -> [UInt8] {
        let numbered = state.schema.numberedTable(table)
        // If the integer key is a reference, the row has the other one's name, even if that one is gone.
        if numbered != table, client != .origin, try !referenced(numbered).exists(number) {
            return try (numbers.name(of: number, in: table) ?? create(number, in: table)).encoded
        }
        return try encodedName(of: number, in: numbered)
    }

    /// The encoded name of a row of the store, in a table that gives its rows their names.
    fileprivate func encodedName(of number: Int64, in table: String) throws -> [UInt8] {
        guard client != .origin else { return RowName.numbered(client: client, number: number).encoded }
        if let holder = try pending.holder(of: number, in: table), try holder.isInStore || isNew(holder.name) {
            return holder.name
        }
        if let name = try restoredRows.takeName(of: number, in: table, of: store) { return name.encoded }
        return try create(number, in: table).encoded
    }

    private var restoredRows: RestoredRows {
        get throws {
            if let found = foundRestoredRows { return found }
            let rows = try RestoredRows(state, insertedBy: client)
            foundRestoredRows = rows
            return rows
        }
    }

    /// Whether the row was found new by this capture, and maybe met only in references until now.
    private func isNew(_ name: [UInt8]) throws -> Bool {
        guard case .numbered(client, let number) = try RowName(decoding: name) else { return false }
        return RowName.counter(in: number) > lastCounter
    }

    /// Gives a row a new name, because the user inserted it; the restored row keeps its name.
    @discardableResult
    func create(_ number: Int64, in table: String) throws -> RowName {
        let name: RowName
        if let writtenAgain, writtenAgain.row.table == table, writtenAgain.number == number {
            name = writtenAgain.row.row
        } else {
            name = try newName(ofRow: number, in: table)
        }
        try numbers.setNumber(number, of: RowReference(table, name))
        return name
    }

    /// A name that this device has given to no row, and a copy of it to no other one.
    ///
    /// The copy counts its rows from the same number on. So the name also has a digest of the row and of the store's time:
    /// only a row that was in the store when it was copied has one name on both.
    private func newName(ofRow number: Int64, in table: String) throws -> RowName {
        let statement = try rowStatement(table)
        try statement.bind(number, at: 1)
        defer { statement.reset() }
        var writer = ByteWriter()
        writer.number(time)
        writer.text(table)
        if try statement.step() { for value in statement.row { writer.value(value) } }
        return try numbers.createName(by: client, SetDigest(of: writer.bytes))
    }

    /// Reads a row of a table by its number.
    private func rowStatement(_ table: String) throws -> SQLStatement {
        if let known = rowStatements[table] { return known }
        let schema = try state.schema.table(table)
        let key = schema.schema.key.columns.first ?? "rowid"
        let list = schema.columns.map(\.quotedName).joined(separator: ", ")
        let statement = try store.prepare("SELECT \(list) FROM \(table.quotedName) WHERE \(key.quotedName) = ?")
        rowStatements[table] = statement
        return statement
    }
}

/// The names of the rows of one table to which references lead; the names that were needed last are in memory.
final class ReferencedNames {
    private let table: String
    private let lookup: SQLStatement
    private unowned let names: RowNames
    /// The numbers and their encoded names, each where the number's lowest bits say; `nil` for a number of no row.
    private var known: [(number: Int64, name: [UInt8]?)]
    private static let count: Int64 = 1 << 14

    /// Prepares to read names.
    ///
    /// - Parameters:
    ///   - table: The table.
    ///   - lookup: Finds a row of the store by its number.
    ///   - names: The names of all tables' rows, which live longer than this object.
    init(of table: String, _ lookup: SQLStatement, _ names: RowNames) {
        (self.table, self.lookup, self.names) = (table, lookup, names)
        known = Array(repeating: (number: 0, name: nil), count: Int(Self.count))
        // No slot has a number of its own yet.
        known[0].number = 1
    }

    /// Whether the store has a row of a number.
    func exists(_ number: Int64) throws -> Bool {
        try lookup.bind(number, at: 1)
        defer { lookup.reset() }
        return try lookup.step()
    }

    /// The encoded name of the row to which a number refers, even if that one is gone; `nil` if no row had the number.
    func name(of number: Int64) throws -> [UInt8]? {
        let index = Int(number & (Self.count - 1))
        if known[index].number == number { return known[index].name }
        let name =
            try exists(number)
            ? names.encodedName(of: number, in: table) : names.numbers.name(ofMissing: number, in: table)?.encoded
        known[index] = (number, name)
        return name
    }
}
