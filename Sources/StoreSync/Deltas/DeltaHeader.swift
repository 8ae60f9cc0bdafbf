import ByteCoding

/// The header of a delta: the sizes of the base file and of the file that the delta creates.
///
/// The format is described in the article on formats, in the module `SyncCryptography`.
struct DeltaHeader: Hashable, Sendable {
    let blockSize: Int64
    let baseSize: Int64
    let size: Int64

    static let byteCount = 40
    /// The size of the header of a run in bytes.
    static let runByteCount = 16

    private static let magic = Array("storesync delta\0".utf8)
    private static let version: UInt16 = 1
    private static let exponents: ClosedRange<UInt8> = 9...20

    /// Creates the header of a delta with blocks of `blockSize` bytes, a power of two from 512 to 1,048,576.
    init(blockSize: Int64, baseSize: Int64, size: Int64) {
        let exponent = UInt8(clamping: max(blockSize, 1).trailingZeroBitCount)
        precondition(
            blockSize == 1 << Int64(exponent) && Self.exponents.contains(exponent),
            "a delta can't have blocks of \(blockSize) bytes"
        )
        self.blockSize = blockSize
        self.baseSize = baseSize
        self.size = size
    }

    /// Reads a header, or returns `nil` if the bytes aren't a valid header of 40 bytes.
    init?(_ bytes: ArraySlice<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var fields = FieldReader(bytes)
        guard fields.bytes(Self.magic.count) == Self.magic, fields.integer(UInt16.self) == Self.version else {
            return nil
        }
        let exponent: UInt8 = fields.integer()
        guard Self.exponents.contains(exponent), fields.bytes(5).allSatisfy({ $0 == 0 }) else { return nil }
        let (baseSize, size): (Int64, Int64) = (fields.integer(), fields.integer())
        guard baseSize >= 0, size >= 0 else { return nil }
        self.init(blockSize: 1 << Int64(exponent), baseSize: baseSize, size: size)
    }

    var bytes: [UInt8] {
        Self.magic + Self.version.littleEndianBytes + [UInt8(blockSize.trailingZeroBitCount)] + [0, 0, 0, 0, 0]
            + baseSize.littleEndianBytes + size.littleEndianBytes
    }

    /// The header of a run.
    static func run(_ blocks: Range<Int64>) -> [UInt8] {
        blocks.lowerBound.littleEndianBytes + Int64(blocks.count).littleEndianBytes
    }

    /// How many blocks the file has.
    var blockCount: Int64 { size / blockSize + (size % blockSize == 0 ? 0 : 1) }

    /// The byte range that blocks of the file cover.
    func byteRange(_ blocks: Range<Int64>) -> Range<Int64> {
        blocks.lowerBound * blockSize..<min(blocks.upperBound * blockSize, size)
    }

    /// Whether the base has all blocks from `first` up to `end`, each as long as in the file.
    func baseHas(_ first: Int64, upTo end: Int64) -> Bool {
        guard first < end else { return true }
        return end * blockSize <= size ? end * blockSize <= baseSize : baseSize == size
    }

    /// How many bytes a delta with these runs has.
    func byteCount(of runs: [Range<Int64>]) -> Int64 {
        runs.reduce(Int64(Self.byteCount + Self.runByteCount)) {
            $0 + Int64(Self.runByteCount) + Int64(byteRange($1).count)
        }
    }
}
