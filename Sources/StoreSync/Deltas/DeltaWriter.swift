/// Puts a delta together, in pieces of about 1 MiB.
struct DeltaWriter: Sendable {
    /// Reads so many bytes of the file, from an offset on.
    typealias Read = (_ offset: Int64, _ count: Int) throws -> [UInt8]

    private static let pieceBytes: Int64 = 1 << 20

    private let header: DeltaHeader
    private let runs: [Range<Int64>]
    private var nextRun = 0
    /// What of the current run is still to come.
    private var rest: Range<Int64> = 0..<0
    private var hasBegun = false
    private var isOver = false

    /// - Parameters:
    ///   - header: What it begins with.
    ///   - runs: The blocks that aren't as in the base, as runs in order that don't touch.
    init(_ header: DeltaHeader, runs: [Range<Int64>]) {
        self.header = header
        self.runs = runs
    }

    /// The next piece, or `nil` at the end.
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
