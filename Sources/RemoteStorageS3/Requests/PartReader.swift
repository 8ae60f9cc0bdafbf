import RemoteStorage

/// Cuts a content into parts of one size, of which only the last is shorter, and checks its length.
struct PartReader {
    private var chunks: RemoteContent.AsyncIterator
    private let length: Int64?
    private let path: RemotePath
    private let size: Int
    private var rest: [UInt8] = []
    private var hasEnded = false
    /// How many bytes were read.
    private(set) var count: Int64 = 0

    init(_ content: RemoteContent, _ path: RemotePath, size: Int) {
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
        while !hasEnded, part.count <= size {
            guard let chunk = try await chunks.next() else {
                hasEnded = true
                break
            }
            count += Int64(chunk.count)
            if let length, count > length { throw wrongLength(length) }
            part += chunk
        }
        // A content may end early when its task is cancelled, as if that were all.
        try Task.checkCancellation()
        if hasEnded, let length, count != length { throw wrongLength(length) }
        guard part.count > size else {
            rest = []
            return (part, true)
        }
        rest = Array(part[size...])
        part.removeLast(rest.count)
        return (part, false)
    }

    private func wrongLength(_ length: Int64) -> RemoteError {
        .wrongLength(path, announced: length, actual: count)
    }
}
