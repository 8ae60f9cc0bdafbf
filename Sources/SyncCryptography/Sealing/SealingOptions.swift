/// The options for sealing a file: its chunk size and compression.
public struct SealingOptions: Hashable, Sendable {
    /// The compression of chunks.
    public struct Compression: Hashable, Sendable {
        /// The number of the method in a header.
        let number: UInt8
        /// The level of zstd, or the initial level if it adapts; 0 for no compression.
        let level: Int32
        /// Whether the level adapts afterwards.
        var adapts = false

        /// No compression.
        public static let none = Compression(number: 0, level: 0)
        /// No compression, in a file whose other chunks may be compressed: an upload can be resumed with another choice.
        public static let stored = Compression(number: 1, level: 0)
        /// Fast compression with zstd.
        public static let zstd = zstd(level: 1)
        /// Compression with zstd that adapts: harder while the transfer waits for the medium, faster while it waits for the processors.
        ///
        /// It applies to files that are sealed while they're read. A file that is sealed in memory is compressed as with ``zstd``.
        public static let adaptive = Compression(number: 1, level: 2, adapts: true)

        /// Compression with zstd, which stores a chunk uncompressed if it doesn't become smaller.
        ///
        /// - Parameter level: From 1 (fastest) to 19 (smallest).
        /// - Returns: The compression.
        public static func zstd(level: Int) -> Compression {
            Compression(number: 1, level: Int32(clamping: min(max(level, 1), 19)))
        }
    }

    /// The binary logarithms of the valid chunk sizes: 4 KiB to 1 MiB.
    static let exponents: ClosedRange<UInt8> = 12...20

    /// The binary logarithm of a chunk's size.
    let chunkExponent: UInt8
    /// The compression of chunks.
    public let compression: Compression
    /// The salt that the file had when its sealing was started; `nil` for a new random salt.
    package var salt: [UInt8]?

    /// The number of the file's bytes in a chunk.
    public var chunkSize: Int { 1 << Int(chunkExponent) }

    /// Creates options.
    ///
    /// - Parameters:
    ///   - chunkSize: The number of the file's bytes in a chunk: a power of two from 4 KiB to 1 MiB.
    ///   - compression: The compression of chunks.
    public init(chunkSize: Int = 1 << 20, compression: Compression = .zstd) {
        let exponent = UInt8(clamping: max(chunkSize, 1).trailingZeroBitCount)
        precondition(
            chunkSize == 1 << Int(exponent) && Self.exponents.contains(exponent),
            "a chunk can't have \(chunkSize) bytes: use a power of two from 4 KiB to 1 MiB"
        )
        chunkExponent = exponent
        self.compression = compression
    }
}
