import RemoteStorage

/// Splits content into parts of one size, except for the last one, and checks its length.
struct PartReader {
    private var chunks: RemoteContent.AsyncIterator
    private let length: Int64?
    private let path: RemotePath
    private let size: Int
    private let keepsPieces: Bool
    private var rest: [UInt8] = []
    private var hasEnded = false
    /// The number of bytes that were read.
    private(set) var count: Int64 = 0

    /// Creates a reader that starts at the first part.
    ///
    /// - Parameters:
    ///   - content: The content.
    ///   - path: The file, for errors.
    ///   - size: The number of bytes of a part.
    ///   - keepsPieces: Whether pieces of the content are never split. A part may then have more bytes than `size`.
    init(_ content: RemoteContent, _ path: RemotePath, size: Int, keepsPieces: Bool = false) {
        self.keepsPieces = keepsPieces
        chunks = content.makeAsyncIterator()
        length = content.length
        self.path = path
        self.size = size
    }

    /// Reads the next part.
    ///
    /// - Returns: The part's bytes, and whether it's the last part. Only the part of empty content is empty.
    /// - Throws: The content's errors; ``RemoteError/Code/wrongLength``; `CancellationError`.
    mutating func next() async throws -> (bytes: [UInt8], isLast: Bool) {
        var part = rest
        // Reading at least one byte beyond the part's end shows whether another part follows.
        part.reserveCapacity(min(size, Int(clamping: length ?? 0)) + RemoteContent.chunkSize)
        var end = self.end(of: part)
        while !hasEnded, end < size || part.count == end {
            guard let chunk = try await chunks.next() else {
                hasEnded = true
                break
            }
            count += Int64(chunk.count)
            if let length, count > length { throw wrongLength(length) }
            part += chunk
            if end < size { end = self.end(of: part) }
        }
        // When its task is cancelled, content may end early as if it were complete.
        try Task.checkCancellation()
        if hasEnded, let length, count != length { throw wrongLength(length) }
        guard part.count > end else {
            rest = []
            return (part, true)
        }
        rest = Array(part[end...])
        part.removeLast(rest.count)
        return (part, false)
    }

    /// The index at which the part at the start of these bytes ends, or at which the bytes end.
    private func end(of bytes: [UInt8]) -> Int { keepsPieces ? bytes.count : min(bytes.count, size) }

    private func wrongLength(_ length: Int64) -> RemoteError {
        .wrongLength(path, announced: length, actual: count)
    }
}
