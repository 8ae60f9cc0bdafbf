/// A row of the state in the form in which a replica stores it.
///
/// The cells outside the key are bytes, one after the other in ascending order of their columns' names. Merging reads and
/// writes few cells of most rows, so a cell is parsed when it's needed.
package struct StoredRow {
    let table: FoldSchema.Table
    /// The encoded cells; empty for a row without a key, whose name has all of its cells.
    private(set) var image: [UInt8]
    /// The sets that inserted the row: more than one if devices inserted it independently, or if rows were merged.
    var inserters: Set<SetID>

    /// A row without a key.
    init(countedIn table: FoldSchema.Table) { self.init(table, [], inserters: []) }

    /// A row with cells; columns without a cell hold their default.
    init(_ table: FoldSchema.Table, _ cells: [String: Cell], inserters: Set<SetID> = []) {
        self.init(table, table.encode(cells), inserters: inserters)
    }

    /// A row of bytes that ``FoldSchema/Table/encode(_:)`` has made, or that ``FoldSchema/Table/check(_:)`` accepts.
    init(_ table: FoldSchema.Table, _ image: [UInt8], inserters: Set<SetID> = []) {
        self.table = table
        self.image = image
        self.inserters = inserters
    }

    /// A row of bytes that the replica has stored.
    ///
    /// - Throws: ``StoreChangesError`` with `corrupt` if they aren't the table's cells.
    init(checking image: [UInt8], in table: FoldSchema.Table) throws {
        try table.check(image)
        self.init(table, image)
    }

    /// The digest of the cells outside the key, by which a delete tells whether its author knew them.
    var digest: SetDigest { SetDigest(of: image) }

    // MARK: Cells

    /// All cells outside the key, by the names of their columns.
    var cells: [String: Cell] {
        get { table.cells(image) }
        set { image = table.encode(newValue) }
    }

    /// What a column outside the key holds; `nil` for a column that the row doesn't have.
    func cell(_ column: String) -> Cell? {
        guard !image.isEmpty, let index = table.valueIndexes[column] else { return nil }
        return Cell(checked: bytes(at: index))
    }

    /// What a column outside the key holds, as an update of it says what it held; `nil` for a column that the row doesn't have.
    func oldCell(_ column: String) -> OldCell? {
        guard !image.isEmpty, let index = table.valueIndexes[column] else { return nil }
        let bytes = bytes(at: index)
        return OldCell(digesting: bytes) ?? .cell(Cell(checked: bytes))
    }

    /// Where each cell is in the image.
    var ranges: [Range<Int>] {
        guard !image.isEmpty else { return [] }
        var start = 0
        return table.valueColumns.map { _ in
            let range = image.rangeOfCell(at: start)
            start = range.upperBound
            return range
        }
    }

    /// The encoded cell of a column, by the column's index among those outside the key.
    func bytes(at index: Int) -> ArraySlice<UInt8> { image[image.rangeOfCell(number: index)] }

    /// Writes some cells; the others stay.
    mutating func write(_ cells: [String: Cell]) {
        guard !cells.isEmpty else { return }
        guard !image.isEmpty else { return self.cells = cells }
        var writer = ByteWriter(capacity: image.count + 32)
        var start = 0
        for column in table.valueColumns {
            let range = image.rangeOfCell(at: start)
            if let cell = cells[column] { writer.cell(cell) } else { writer.raw(image[range]) }
            start = range.upperBound
        }
        image = writer.bytes
    }

    /// The columns outside the key in which another row of the table holds something else, in ascending order of their names.
    ///
    /// It reads both rows once, because to find a single cell means to read all cells before it.
    func changedColumns(from other: StoredRow) -> [String] {
        guard !image.isEmpty, !other.image.isEmpty else {
            return image.isEmpty == other.image.isEmpty ? [] : table.valueColumns
        }
        var (start, otherStart) = (0, 0)
        return table.valueColumns.filter { _ in
            let (range, otherRange) = (image.rangeOfCell(at: start), other.image.rangeOfCell(at: otherStart))
            (start, otherStart) = (range.upperBound, otherRange.upperBound)
            return image[range] != other.image[otherRange]
        }
    }

    /// Whether another row of the table holds the same in a column.
    func holdsSame(_ column: String, as other: StoredRow) -> Bool {
        guard let index = table.valueIndexes[column], !image.isEmpty, !other.image.isEmpty else {
            return image.isEmpty == other.image.isEmpty
        }
        return bytes(at: index).elementsEqual(other.bytes(at: index))
    }
}

extension StoredRow: Equatable {
    package static func == (lhs: StoredRow, rhs: StoredRow) -> Bool {
        lhs.image == rhs.image && lhs.inserters == rhs.inserters
    }
}

/// A deleted row in the form in which a replica stores it.
package struct StoredTomb: Equatable {
    var row: StoredRow
    /// The sets that deleted it.
    var deleters: Set<SetID>
}

// MARK: - Images

extension FoldSchema.Table {
    /// Encodes the cells outside the key.
    func encode(_ cells: [String: Cell]) -> [UInt8] {
        var writer = ByteWriter()
        for (index, column) in valueColumns.enumerated() {
            if let cell = cells[column] { writer.cell(cell) } else { writer.raw(encodedDefaults[index]) }
        }
        return writer.bytes
    }

    /// Parses the cells outside the key.
    func cells(_ image: [UInt8]) -> [String: Cell] {
        guard !image.isEmpty else { return [:] }
        var cells = [String: Cell](minimumCapacity: valueColumns.count)
        var start = 0
        for column in valueColumns {
            let range = image.rangeOfCell(at: start)
            cells[column] = Cell(checked: image[range])
            start = range.upperBound
        }
        return cells
    }

    /// Checks that stored bytes are the cells outside the key, so that later no more than a cell is parsed.
    ///
    /// - Throws: ``StoreChangesError`` with `corrupt`.
    func check(_ image: [UInt8]) throws {
        var end: Int? = 0
        for _ in valueColumns { end = end.flatMap { image.endOfCell(at: $0) } }
        guard end == image.count else {
            throw StoreChangesError(
                .corrupt,
                "The record of \(schema.name) is damaged. Synchronize with --rebuild to build it again."
            )
        }
    }
}

extension Cell {
    /// Parses bytes that are known to be a cell.
    fileprivate init(checked bytes: ArraySlice<UInt8>) {
        var parser = ByteParser(bytes)
        // Every stored image was checked when it was read.
        self = (try? parser.cell("a stored cell")) ?? .null
    }
}

extension [UInt8] {
    /// Where a cell of an image is, by its index.
    fileprivate func rangeOfCell(number index: Int) -> Range<Int> {
        var start = 0
        for _ in 0..<index { start = rangeOfCell(at: start).upperBound }
        return rangeOfCell(at: start)
    }

    /// Where the cell of an image is that begins at a position.
    fileprivate func rangeOfCell(at start: Int) -> Range<Int> { start..<(endOfCell(at: start) ?? endIndex) }

    /// Where the encoded cell ends that begins at a position; `nil` if there is none.
    func endOfCell(at start: Int) -> Int? {
        withUnsafeBufferPointer { CellSkipper(bytes: $0).endOfCell(at: start, depth: 0) }
    }
}

/// Finds the ends of encoded cells, without parsing what is in them.
private struct CellSkipper {
    let bytes: UnsafeBufferPointer<UInt8>

    func endOfCell(at start: Int, depth: Int) -> Int? {
        guard start < bytes.count else { return nil }
        switch bytes[start] {
        case 0: return start + 1
        case 1: return endOfNumber(at: start + 1)
        case 2: return start + 9 <= bytes.count ? start + 9 : nil
        case 3, 4: return endOfCounted(at: start + 1)
        case 5: return endOfName(at: start + 1, depth: depth + 1)
        default: return nil
        }
    }

    private func endOfNumber(at start: Int) -> Int? {
        var index = start
        while index < bytes.count {
            if bytes[index] < 0x80 { return index + 1 }
            index += 1
        }
        return nil
    }

    /// A number and where it ends.
    private func count(at start: Int) -> (count: Int, end: Int)? {
        var (count, shift, index) = (0, 0, start)
        while index < bytes.count, shift < 35 {
            count |= Int(bytes[index] & 0x7F) << shift
            if bytes[index] < 0x80 { return (count, index + 1) }
            shift += 7
            index += 1
        }
        return nil
    }

    private func endOfCounted(at start: Int) -> Int? {
        guard let (count, end) = count(at: start), count <= bytes.count - end else { return nil }
        return end + count
    }

    private func endOfName(at start: Int, depth: Int) -> Int? {
        guard start < bytes.count, depth <= ByteParser.maximumDepth else { return nil }
        switch bytes[start] {
        case 1: return endOfCounted(at: start + 1).flatMap(endOfNumber)
        case 2:
            guard var (count, end) = count(at: start + 1) else { return nil }
            while count > 0 {
                guard let next = endOfCell(at: end, depth: depth) else { return nil }
                (count, end) = (count - 1, next)
            }
            return end
        default: return nil
        }
    }
}
