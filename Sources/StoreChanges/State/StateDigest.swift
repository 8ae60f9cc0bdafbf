import ByteCoding
import ContentDigests

/// The digest of all rows of a state, by which two replicas find out whether they are equal.
///
/// It is the sum, modulo 2²⁵⁶, of a keyed hash of each row: so it follows each change without reading the other rows.
/// Cells that hold their column's default don't count, so that a column that an app adds changes nothing. Deleted rows, former
/// values and inserters don't count, because replicas forget them at different times.
package struct StateDigest: Hashable, Sendable {
    /// The key of the hashes: without it, rows with a chosen sum can't be made up.
    package struct Key: Hashable, Sendable {
        fileprivate let bytes: [UInt8]

        /// Creates a key for a document.
        ///
        /// - Parameter secret: What all devices of the document know.
        package init(_ secret: String) { bytes = Blake2b.digest(of: Array("state digest ".utf8) + Array(secret.utf8)) }
    }

    /// The digest of a state without rows.
    package static let empty = StateDigest(words: [0, 0, 0, 0])

    /// The sum, the least significant word first.
    private var words: [UInt64]

    private init(words: [UInt64]) { self.words = words }

    /// Restores a digest from its bytes; `nil` if there aren't 32.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        words = stride(from: 0, to: 32, by: 8).map { UInt64(littleEndianBytes: bytes[$0..<$0 + 8]) }
    }

    /// The 32 bytes, the least significant first.
    package var bytes: [UInt8] { words.flatMap(\.littleEndianBytes) }

    /// Follows a change.
    mutating func apply(_ delta: StateDelta, _ schema: FoldSchema, _ key: Key) {
        for (row, pair) in delta.rows {
            if let before = pair.before { subtract(Self.hash(row, before, key)) }
            if let after = pair.after { add(row, after, key) }
        }
        for (row, pair) in delta.counts {
            if let before = pair.before { subtract(Self.hash(row, count: before, schema, key)) }
            if let after = pair.after { add(row, count: after, schema, key) }
        }
    }

    /// Computes the digest of a state by reading all of it.
    package init(of content: StateContent, _ schema: FoldSchema, _ key: Key) {
        self = .empty
        for (row, state) in content.rows {
            guard let table = schema.tables[row.table] else { continue }
            add(row, StoredRow(table, state.cells), key)
        }
        for (row, count) in content.counts { add(row, count: count, schema, key) }
    }

    /// Adds a row with a key.
    mutating func add(_ row: RowReference, _ stored: StoredRow, _ key: Key) { add(Self.hash(row, stored, key)) }

    /// Adds equal rows without a key.
    mutating func add(_ row: RowReference, count: Int, _ schema: FoldSchema, _ key: Key) {
        add(Self.hash(row, count: count, schema, key))
    }

    /// The row's table, name, and each cell that isn't its column's default, after the column's name.
    private static func hash(_ row: RowReference, _ stored: StoredRow, _ key: Key) -> [UInt64] {
        let table = stored.table
        let informative = stored.ranges.enumerated().filter { index, range in
            !stored.image[range].elementsEqual(table.encodedDefaults[index])
        }
        var writer = ByteWriter()
        writer.text(row.table)
        writer.name(row.row)
        writer.count(informative.count)
        for (index, range) in informative {
            writer.text(table.valueColumns[index])
            writer.raw(stored.image[range])
        }
        return hash(writer.bytes, key)
    }

    private static func hash(_ row: RowReference, count: Int, _ schema: FoldSchema, _ key: Key) -> [UInt64] {
        guard let table = schema.tables[row.table] else { return [0, 0, 0, 0] }
        let cells = schema.cells(of: row, StoredRow(countedIn: table))
        var writer = ByteWriter()
        writer.text(row.table)
        writer.raw(cells.filter { $0.value != table.defaults[$0.key] ?? .null }.encoded)
        writer.count(count)
        return hash(writer.bytes, key)
    }

    private static func hash(_ bytes: [UInt8], _ key: Key) -> [UInt64] {
        var words: [UInt64] = [0, 0, 0, 0]
        words.withUnsafeMutableBytes { digest in
            key.bytes.withUnsafeBytes { key in bytes.withUnsafeBytes { Blake2b.fill(digest, with: $0, key: key) } }
        }
        for index in words.indices { words[index] = UInt64(littleEndian: words[index]) }
        return words
    }

    private mutating func add(_ other: [UInt64]) {
        var carry: UInt64 = 0
        for index in words.indices {
            let (partial, first) = words[index].addingReportingOverflow(other[index])
            let (sum, second) = partial.addingReportingOverflow(carry)
            words[index] = sum
            carry = first || second ? 1 : 0
        }
    }

    private mutating func subtract(_ other: [UInt64]) {
        var borrow: UInt64 = 0
        for index in words.indices {
            let (partial, first) = words[index].subtractingReportingOverflow(other[index])
            let (difference, second) = partial.subtractingReportingOverflow(borrow)
            words[index] = difference
            borrow = first || second ? 1 : 0
        }
    }
}
