import RemoteStorage

/// Splits content into parts, and checks its length.
///
/// Parts have one size, except for the last one. They grow only if the content's length isn't known.
struct PartReader {
    private var chunks: RemoteContent.AsyncIterator
    private let length: Int64?
    private let path: RemotePath
    private let firstSize: Int
    private let keepsPieces: Bool
    private var rest: [UInt8] = []
    private var hasEnded = false
    /// The number of the part that was read last, or that the first part to read follows.
    var number = 0
    /// The number of bytes that were read.
    private(set) var count: Int64 = 0

    /// Creates a reader that starts at the first part.
    ///
    /// - Parameters:
    ///   - content: The content.
    ///   - path: The file, for errors.
    ///   - size: The number of bytes of the first part.
    ///   - keepsPieces: Whether pieces of the content are never split. A part may then have more bytes than its size.
    init(_ content: RemoteContent, _ path: RemotePath, size: Int, keepsPieces: Bool = false) {
        self.keepsPieces = keepsPieces
        chunks = content.makeAsyncIterator()
        length = content.length
        self.path = path
        firstSize = size
    }

    /// The size of the part that was read last, in bytes.
    var size: Int { length == nil ? PartedUpload.size(ofPart: number, from: firstSize) : firstSize }

    /// Reads the next part.
    ///
    /// - Returns: The part's bytes, and whether it's the last part. Only the part of empty content is empty.
    /// - Throws: The content's errors; ``RemoteError/Code/wrongLength``; `CancellationError`.
    mutating func next() async throws -> (bytes: [UInt8], isLast: Bool) {
        number += 1
        let size = size
        var part = rest
        // Reading at least one byte beyond the part's end shows whether another part follows.
        part.reserveCapacity(min(size, Int(clamping: length ?? 0)) + RemoteContent.chunkSize)
        // The index at which the part at the start of these bytes ends, or at which the bytes end.
        let endOf = { [keepsPieces] (bytes: [UInt8]) in keepsPieces ? bytes.count : min(bytes.count, size) }
        var end = endOf(part)
        while !hasEnded, end < size || part.count == end {
            guard let chunk = try await chunks.next() else {
                hasEnded = true
                break
            }
            count += Int64(chunk.count)
            if let length, count > length { throw wrongLength(length) }
            part += chunk
            if end < size { end = endOf(part) }
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

    private func wrongLength(_ length: Int64) -> RemoteError {
        .wrongLength(path, announced: length, actual: count)
    }
}
