import ByteCoding

/// Encodes the parts of a change set.
///
/// <doc:ChangeSetFormat> has the layout byte by byte.
struct ByteWriter {
    private(set) var bytes: [UInt8] = []

    /// Removes and returns what was written.
    mutating func take() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }

    mutating func byte(_ byte: UInt8) { bytes.append(byte) }

    mutating func raw(_ raw: [UInt8]) { bytes += raw }

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
    mutating func counted(_ counted: [UInt8]) {
        count(counted.count)
        bytes += counted
    }

    mutating func text(_ text: String) { counted(Array(text.utf8)) }

    mutating func value(_ value: StoredValue) {
        switch value {
        case .null: byte(0)
        case .integer(let integer):
            byte(1)
            signed(integer)
        case .real(let bitPattern):
            byte(2)
            raw(bitPattern.littleEndianBytes)
        case .text(let text):
            byte(3)
            counted(text)
        case .blob(let blob):
            byte(4)
            counted(blob)
        }
    }

    mutating func cell(_ cell: Cell) {
        switch cell {
        case .value(let value): self.value(value)
        case .row(let name):
            byte(5)
            self.name(name)
        }
    }

    mutating func name(_ name: RowName) {
        switch name {
        case .numbered(let client, let number):
            byte(1)
            text(client.rawValue)
            signed(number)
        case .key(let cells):
            byte(2)
            count(cells.count)
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
