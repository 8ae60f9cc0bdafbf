extension FixedWidthInteger {
    /// The number's bytes, the least significant first.
    package var littleEndianBytes: [UInt8] { withUnsafeBytes(of: littleEndian) { Array($0) } }

    /// Reads a number from exactly its bytes, the least significant first.
    package init(littleEndianBytes bytes: ArraySlice<UInt8>) {
        precondition(bytes.count == Self.bitWidth / 8, "the wrong size for a number of \(Self.bitWidth) bits")
        self = bytes.reversed().reduce(0) { $0 << 8 | Self($1) }
    }
}

/// Reads the fields of a format in order; the caller has checked that there are enough bytes.
package struct FieldReader {
    private var rest: ArraySlice<UInt8>

    package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    package mutating func bytes(_ count: Int) -> [UInt8] {
        precondition(count <= rest.count, "the format is \(count - rest.count) bytes shorter than its fields")
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    package mutating func integer<Integer: FixedWidthInteger>(_: Integer.Type = Integer.self) -> Integer {
        Integer(littleEndianBytes: bytes(Integer.bitWidth / 8)[...])
    }
}
