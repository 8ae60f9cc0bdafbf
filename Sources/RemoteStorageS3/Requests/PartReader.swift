import RemoteStorage

/// Cuts a content into parts, of one size but for the last, and checks its length.
struct PartReader {
    private var chunks: RemoteContent.AsyncIterator
    private let length: Int64?
    private let path: RemotePath
    private let size: Int
    private let keepsPieces: Bool
    private var rest: [UInt8] = []
    private var hasEnded = false
    /// How many bytes were read.
    private(set) var count: Int64 = 0

    /// Begins with the first part.
    ///
    /// - Parameters:
    ///   - content: The content.
    ///   - path: The file, for errors.
    ///   - size: How many bytes a part has.
    ///   - keepsPieces: Whether no piece of the content is cut: then a part may have more bytes than that.
    init(_ content: RemoteContent, _ path: RemotePath, size: Int, keepsPieces: Bool = false) {
        self.keepsPieces = keepsPieces
        chunks = content.makeAsyncIterator()
        length = content.length
        self.path = path
        self.size = size
    }

    /// Reads the next part.
    ///
    /// - Returns: At least one part, which may be empty, then whatever is left; and whether it's the last one.
    /// - Throws: What the content throws; ``RemoteError/Code/wrongLength``; `CancellationError`.
    mutating func next() async throws -> (bytes: [UInt8], isLast: Bool) {
        var part = rest
        // One byte more than there is room for tells that another part follows.
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
        // A content may end early when its task is cancelled, as if that were all.
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

    /// Where the part ends that these bytes begin with, if it ends among them.
    private func end(of bytes: [UInt8]) -> Int { keepsPieces ? bytes.count : min(bytes.count, size) }

    private func wrongLength(_ length: Int64) -> RemoteError {
        .wrongLength(path, announced: length, actual: count)
    }
}
