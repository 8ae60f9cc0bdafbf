/// Cuts the bytes of an asynchronous sequence into pieces of chosen sizes.
struct ByteStream<Source: AsyncIteratorProtocol> where Source.Element == [UInt8] {
    private var source: Source
    /// The last piece of the source, whose bytes from `offset` on aren't taken yet.
    private var current: [UInt8] = []
    private var offset = 0
    private var isAtEnd = false

    init(_ source: Source) {
        self.source = source
    }

    /// Returns the next bytes.
    ///
    /// - Parameter count: The number of bytes, at least 1.
    /// - Returns: That number of bytes; fewer only at the end.
    /// - Throws: What the source throws, or `CancellationError`.
    mutating func take(_ count: Int) async throws -> [UInt8] {
        guard try await fill() else { return [] }
        // Most sources give pieces of the chunk's size, which are passed on without a copy.
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

    /// Returns whether the source has no more bytes.
    mutating func isOver() async throws -> Bool {
        try await !fill()
    }

    /// Reads the next piece if `current` is used up; returns whether there are bytes.
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
