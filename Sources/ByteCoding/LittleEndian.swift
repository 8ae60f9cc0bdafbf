extension FixedWidthInteger {
    /// The number's bytes, the least significant first.
    package var littleEndianBytes: [UInt8] { withUnsafeBytes(of: littleEndian) { Array($0) } }

    /// Reads a number from exactly its bytes, the least significant first.
    package init(littleEndianBytes bytes: ArraySlice<UInt8>) {
        precondition(bytes.count == Self.bitWidth / 8, "the wrong size for a number of \(Self.bitWidth) bits")
        self = bytes.reversed().reduce(0) { $0 << 8 | Self($1) }
    }
}
