/// Writes a delta in pieces of about 1 MiB.
struct DeltaWriter: Sendable {
    /// Reads `count` bytes of the file at an offset.
    typealias Read = (_ offset: Int64, _ count: Int) throws -> [UInt8]

    private static let pieceBytes: Int64 = 1 << 20

    private let header: DeltaHeader
    private let runs: [Range<Int64>]
    private var nextRun = 0
    /// The byte range of the current run that hasn't been written yet.
    private var rest: Range<Int64> = 0..<0
    private var hasBegun = false
    private var isOver = false

    /// - Parameters:
    ///   - header: The delta's header.
    ///   - runs: The blocks that differ from the base, as runs in order that aren't adjacent.
    init(_ header: DeltaHeader, runs: [Range<Int64>]) {
        self.header = header
        self.runs = runs
    }

    /// Returns the next piece, or `nil` at the end.
    mutating func next(reading read: Read) rethrows -> [UInt8]? {
        guard !isOver else { return nil }
        var piece = hasBegun ? [] : header.bytes
        hasBegun = true
        while Int64(piece.count) < Self.pieceBytes {
            if rest.isEmpty {
                guard nextRun < runs.count else {
                    isOver = true
                    return piece + DeltaHeader.run(header.blockCount..<header.blockCount)
                }
                piece += DeltaHeader.run(runs[nextRun])
                rest = header.byteRange(runs[nextRun])
                nextRun += 1
            }
            let count = min(Int64(rest.count), Self.pieceBytes)
            piece += try read(rest.lowerBound, Int(count))
            rest = rest.lowerBound + count..<rest.upperBound
        }
        return piece
    }
}
