/// The pieces in which a delta is written, in order; each has about 2 MiB at most.
struct DeltaPieces: IteratorProtocol, Sendable {
    private static let pieceBytes: Int64 = 1 << 20

    private let header: DeltaHeader
    private let runs: [Range<Int64>]
    private var nextRun = 0
    /// The byte range of the current run that is in no piece yet.
    private var rest: Range<Int64> = 0..<0
    /// Where the next piece begins in the delta.
    private var offset: Int64 = 0
    private var isOver = false

    /// - Parameters:
    ///   - header: The delta's header.
    ///   - runs: The blocks that differ from the base, as runs in order that aren't adjacent.
    init(_ header: DeltaHeader, runs: [Range<Int64>]) {
        self.header = header
        self.runs = runs
    }

    /// Returns the next piece, or `nil` at the end.
    mutating func next() -> DeltaPiece? {
        guard !isOver else { return nil }
        var piece = DeltaPiece(offset: offset)
        defer { offset += piece.byteCount }
        if offset == 0 { piece.append(.header(header.bytes)) }
        while piece.byteCount < Self.pieceBytes {
            if rest.isEmpty {
                guard nextRun < runs.count else {
                    isOver = true
                    piece.append(.header(DeltaHeader.run(header.blockCount..<header.blockCount)))
                    return piece
                }
                piece.append(.header(DeltaHeader.run(runs[nextRun])))
                rest = header.byteRange(runs[nextRun])
                nextRun += 1
            }
            let content = rest.prefix(Int(Self.pieceBytes))
            piece.append(.content(content))
            rest = content.upperBound..<rest.upperBound
        }
        return piece
    }
}

/// A piece of a delta, whose content is still in the store.
struct DeltaPiece: Sendable {
    enum Part: Sendable {
        /// The bytes of a header.
        case header([UInt8])
        /// A byte range of the store.
        case content(Range<Int64>)
    }

    /// Where it begins in the delta.
    let offset: Int64
    private var parts: [Part] = []
    private(set) var byteCount: Int64 = 0

    init(offset: Int64) { self.offset = offset }

    mutating func append(_ part: Part) {
        parts.append(part)
        switch part {
        case .header(let bytes): byteCount += Int64(bytes.count)
        case .content(let range): byteCount += Int64(range.count)
        }
    }

    /// Returns its bytes.
    ///
    /// - Parameter read: Reads `count` bytes of the store at an offset.
    /// - Returns: As many bytes as ``byteCount`` says.
    /// - Throws: What `read` throws.
    func bytes(reading read: (_ offset: Int64, _ count: Int) throws -> [UInt8]) rethrows -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(byteCount))
        for part in parts {
            switch part {
            case .header(let header): bytes += header
            case .content(let range): bytes += try read(range.lowerBound, range.count)
            }
        }
        return bytes
    }
}
