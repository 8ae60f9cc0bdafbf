/// How a file is cut and compressed before it's sealed.
public struct SealingOptions: Hashable, Sendable {
    /// How chunks are compressed.
    public struct Compression: Hashable, Sendable {
        /// The method's number in a header.
        let number: UInt8
        /// How hard zstd tries, at the beginning at least.
        let level: Int32
        /// Whether it tries harder or less from then on.
        var adapts = false

        /// Not at all.
        public static let none = Compression(number: 0, level: 0)
        /// With zstd, fast.
        public static let zstd = zstd(level: 1)
        /// With zstd, as hard as there is time for: harder while the medium is waited for, less while the processors are.
        ///
        /// For files that go through a pipeline; a file that is sealed in memory is compressed as with ``zstd``.
        public static let adaptive = Compression(number: 1, level: 1, adapts: true)

        /// With zstd; a chunk that doesn't become smaller is stored as it is.
        ///
        /// - Parameter level: 1, fast, to 19, small.
        /// - Returns: The compression.
        public static func zstd(level: Int) -> Compression {
            Compression(number: 1, level: Int32(clamping: min(max(level, 1), 19)))
        }
    }

    /// The binary logarithms of the sizes that a chunk may have: 4 KiB to 1 MiB.
    static let exponents: ClosedRange<UInt8> = 12...20

    /// The binary logarithm of a chunk's size.
    let chunkExponent: UInt8
    /// How chunks are compressed.
    public let compression: Compression

    /// How many bytes of the file a chunk holds.
    public var chunkSize: Int { 1 << Int(chunkExponent) }

    /// Creates options.
    ///
    /// - Parameters:
    ///   - chunkSize: How many bytes of the file a chunk holds: a power of two from 4 KiB to 1 MiB.
    ///   - compression: How chunks are compressed.
    public init(chunkSize: Int = 1 << 20, compression: Compression = .zstd) {
        let exponent = UInt8(clamping: max(chunkSize, 1).trailingZeroBitCount)
        precondition(
            chunkSize == 1 << Int(exponent) && Self.exponents.contains(exponent),
            "a chunk can't have \(chunkSize) bytes: take a power of two from 4 KiB to 1 MiB"
        )
        chunkExponent = exponent
        self.compression = compression
    }
}
