/// Encodes the parts of a change set.
///
/// <doc:ChangeSetFormat> has the layout byte by byte.
struct ByteWriter {
    /// The first byte of a cell that is a row.
    static let rowTag: UInt8 = 5

    private(set) var bytes: [UInt8] = []

    /// - Parameter count: About how many bytes will be written.
    init(capacity count: Int = 0) { bytes.reserveCapacity(count) }

    /// Discards what was written, and keeps its memory.
    mutating func clear() { bytes.removeAll(keepingCapacity: true) }

    mutating func byte(_ byte: UInt8) { bytes.append(byte) }

    mutating func raw(_ raw: some Collection<UInt8>) {
        let count = bytes.count + raw.count
        // With room for what follows: otherwise the first byte after a large value would double the memory, and copy the value.
        if count > bytes.capacity { bytes.reserveCapacity(max(count + count / 8, 2 * bytes.capacity)) }
        bytes += raw
    }

    /// Writes a number in seven bits a byte, the lowest first; all bytes but the last have the highest bit set.
    mutating func number(_ number: some UnsignedInteger) {
        var rest = UInt64(number)
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func count(_ count: Int) { number(UInt(count)) }

    /// Writes a signed number so that small negative ones are short too: 0, -1, 1, -2 become 0, 1, 2, 3.
    mutating func signed(_ number: Int64) { self.number(UInt64(bitPattern: number << 1 ^ number >> 63)) }

    /// Writes bytes after their count.
    mutating func counted(_ counted: some Collection<UInt8>) {
        count(counted.count)
        raw(counted)
    }

    mutating func text(_ text: String) { counted(text.utf8) }

    mutating func value(_ value: StoredValue) {
        switch value {
        case .null: null()
        case .integer(let value): integer(value)
        case .real(let bitPattern): real(bitPattern)
        case .text(let bytes): bytes.withUnsafeBytes { text($0) }
        case .blob(let bytes): bytes.withUnsafeBytes { blob($0) }
        }
    }

    mutating func null() { byte(0) }

    mutating func integer(_ integer: Int64) {
        byte(1)
        signed(integer)
    }

    mutating func real(_ bitPattern: UInt64) {
        byte(2)
        for shift in stride(from: UInt64(0), to: 64, by: 8) { byte(UInt8(truncatingIfNeeded: bitPattern >> shift)) }
    }

    mutating func text(_ text: UnsafeRawBufferPointer) {
        byte(3)
        counted(text)
    }

    mutating func blob(_ blob: UnsafeRawBufferPointer) {
        byte(4)
        counted(blob)
    }

    mutating func cell(_ cell: Cell) {
        switch cell {
        case .value(let value): self.value(value)
        case .row(let name):
            byte(Self.rowTag)
            self.name(name)
        }
    }

    /// Writes a reference to a row whose name is encoded already.
    mutating func row(encodedName: [UInt8]) {
        byte(Self.rowTag)
        raw(encodedName)
    }

    /// Begins the name of a row without an integer key, whose cells follow.
    mutating func startName(count: Int) {
        byte(2)
        self.count(count)
    }

    mutating func name(_ name: RowName) {
        switch name {
        case .numbered(let client, let number):
            byte(1)
            text(client.rawValue)
            signed(number)
        case .key(let cells):
            startName(count: cells.count)
            for cell in cells { self.cell(cell) }
        }
    }
}

extension RowName {
    /// The name's bytes in change sets, by which names are ordered.
    package var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.name(self)
        return writer.bytes
    }
}

extension Cell {
    /// The cell's bytes in change sets.
    package var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.cell(self)
        return writer.bytes
    }
}
