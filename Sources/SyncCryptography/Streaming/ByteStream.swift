/// Cuts what an asynchronous sequence gives into pieces of chosen sizes.
struct ByteStream<Source: AsyncIteratorProtocol> where Source.Element == [UInt8] {
    private var source: Source
    /// What came and wasn't taken yet: `current` from `offset` on.
    private var current: [UInt8] = []
    private var offset = 0
    private var isAtEnd = false

    init(_ source: Source) {
        self.source = source
    }

    /// The next bytes.
    ///
    /// - Parameter count: How many, more than none.
    /// - Returns: That many; fewer only at the end.
    /// - Throws: What the source throws, or `CancellationError`.
    mutating func take(_ count: Int) async throws -> [UInt8] {
        guard try await fill() else { return [] }
        // Sources tend to give pieces of the chunk's size: those are handed on as they are.
        if offset == 0, current.count == count {
            defer { current = [] }
            return current
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        try await append(count, to: &bytes)
        return bytes
    }

    /// Appends the next bytes to others: `count` of them, fewer only at the end.
    mutating func append(_ count: Int, to bytes: inout [UInt8]) async throws {
        var missing = count
        while missing > 0, try await fill() {
            let piece = current[offset...].prefix(missing)
            bytes += piece
            offset += piece.count
            missing -= piece.count
        }
    }

    /// Whether there is nothing more.
    mutating func isOver() async throws -> Bool {
        try await !fill()
    }

    /// Makes sure that there is something in `current`; returns whether there is.
    private mutating func fill() async throws -> Bool {
        while offset == current.count, !isAtEnd {
            try Task.checkCancellation()
            let next = try await source.next(isolation: #isolation)
            isAtEnd = next == nil
            current = next ?? []
            offset = 0
        }
        return offset < current.count
    }
}
