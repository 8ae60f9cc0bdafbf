import ByteCoding

/// Parses a delta as it arrives, in pieces of any size, and refuses what no ``DeltaWriter`` writes.
///
/// The numbers in the delta, however large, never decide how much memory is allocated.
struct DeltaReader: Sendable {
    /// The reason why bytes aren't a delta between the two expected files.
    struct Malformed: Error, Hashable {
        let reason: String
    }

    /// Writes bytes into the file at an offset.
    typealias Write = (_ offset: Int64, _ bytes: ArraySlice<UInt8>) throws -> Void

    private enum State {
        case header, run, content, end
    }

    private let baseSize: Int64
    private let size: Int64
    private var state = State.header
    private var header: DeltaHeader?
    /// The first bytes of a field that hasn't arrived completely.
    private var pending: [UInt8] = []
    /// The byte range of the current run that hasn't arrived yet.
    private var rest: Range<Int64> = 0..<0
    /// The first block after the runs that have arrived; `nil` before the first run.
    private var nextBlock: Int64?

    /// - Parameters:
    ///   - baseSize: How many bytes the base has.
    ///   - size: How many bytes the file has that the delta creates.
    init(baseSize: Int64, size: Int64) {
        self.baseSize = baseSize
        self.size = size
    }

    /// Reads the next bytes of the delta.
    ///
    /// - Parameters:
    ///   - piece: The bytes.
    ///   - write: Called with the bytes of the file, in order, never beyond its size.
    /// - Throws: ``Malformed``, and what `write` throws.
    mutating func read(_ piece: [UInt8], _ write: Write) throws {
        var bytes = piece[...]
        while !bytes.isEmpty {
            switch state {
            case .header:
                guard let field = take(DeltaHeader.byteCount, of: &bytes) else { return }
                try begin(field)
            case .run:
                guard let field = take(DeltaHeader.runByteCount, of: &bytes) else { return }
                try beginRun(field)
            case .content:
                let content = bytes.prefix(Int(min(Int64(bytes.count), Int64(rest.count))))
                try write(rest.lowerBound, content)
                bytes = bytes.dropFirst(content.count)
                rest = rest.lowerBound + Int64(content.count)..<rest.upperBound
                if rest.isEmpty { state = .run }
            case .end:
                throw Malformed(reason: "bytes follow after its end")
            }
        }
    }

    /// Checks at the end of the bytes that the delta is complete.
    ///
    /// - Throws: ``Malformed`` if it isn't.
    func finish() throws(Malformed) {
        guard state == .end else { throw Malformed(reason: "it ends too early") }
    }

    private mutating func take(_ count: Int, of bytes: inout ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let part = bytes.prefix(count - pending.count)
        pending += part
        bytes = bytes.dropFirst(part.count)
        guard pending.count == count else { return nil }
        defer { pending = [] }
        return pending[...]
    }

    private mutating func begin(_ field: ArraySlice<UInt8>) throws(Malformed) {
        guard let header = DeltaHeader(field) else { throw Malformed(reason: "it doesn't begin with a delta's header") }
        guard header.baseSize == baseSize, header.size == size else {
            throw Malformed(reason: "its sizes don't match the store and its base")
        }
        self.header = header
        state = .run
    }

    private mutating func beginRun(_ field: ArraySlice<UInt8>) throws(Malformed) {
        guard let header else { preconditionFailure("a run comes after the header") }
        let (first, count) = (number(field.prefix(8)), number(field.dropFirst(8)))
        let isEnd = count == 0
        // A writer merges adjacent runs into one.
        let least = nextBlock.map { isEnd ? $0 : $0 + 1 } ?? 0
        guard first >= least, count >= 0, first <= header.blockCount, count <= header.blockCount - first,
            !isEnd || first == header.blockCount
        else { throw Malformed(reason: "its runs are out of order or beyond the end of the store") }
        guard header.baseHas(nextBlock ?? 0, upTo: first) else {
            throw Malformed(reason: "it omits blocks that the base doesn't have")
        }
        rest = isEnd ? 0..<0 : header.byteRange(first..<first + count)
        nextBlock = first + count
        state = isEnd ? .end : .content
    }

    private func number(_ bytes: ArraySlice<UInt8>) -> Int64 { Int64(littleEndianBytes: bytes) }
}
