extension FixedWidthInteger {
    /// The number's bytes, the least significant first.
    package var littleEndianBytes: [UInt8] { withUnsafeBytes(of: littleEndian) { Array($0) } }

    /// Reads a number from its bytes, the least significant first; there must be as many as it has.
    package init(littleEndianBytes bytes: ArraySlice<UInt8>) {
        precondition(bytes.count == Self.bitWidth / 8, "a number of \(Self.bitWidth) bits has other bytes")
        self = bytes.reversed().reduce(0) { $0 << 8 | Self($1) }
    }
}

/// Reads the fields of a format one after the other; that there are bytes enough was checked before.
package struct FieldReader {
    private var rest: ArraySlice<UInt8>

    package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    package mutating func bytes(_ count: Int) -> [UInt8] {
        precondition(count <= rest.count, "the format has \(count - rest.count) bytes less than its fields")
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    package mutating func integer<Integer: FixedWidthInteger>(_: Integer.Type = Integer.self) -> Integer {
        Integer(littleEndianBytes: bytes(Integer.bitWidth / 8)[...])
    }
}
