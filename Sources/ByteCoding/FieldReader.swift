/// Reads the fields of a format in order; the caller has checked that there are enough bytes.
package struct FieldReader {
    private var rest: ArraySlice<UInt8>

    /// Starts with the first of `bytes`.
    package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    /// The number of bytes that aren't read yet.
    package var remaining: Int { rest.count }

    /// Reads the next bytes without a copy, as secrets require.
    package mutating func slice(_ count: Int) -> ArraySlice<UInt8> {
        precondition(count <= rest.count, "the format is \(count - rest.count) bytes shorter than its fields")
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    /// Reads the next bytes.
    package mutating func bytes(_ count: Int) -> [UInt8] { Array(slice(count)) }

    /// Reads a number, the least significant byte first.
    package mutating func integer<Integer: FixedWidthInteger>(_: Integer.Type = Integer.self) -> Integer {
        Integer(littleEndianBytes: slice(Integer.bitWidth / 8))
    }
}
