/// The bytes of a file, chunk by chunk.
///
/// A content that is to be written can be iterated again from its beginning, so that a write can be tried again. One
/// that was read need not: iterate it once.
///
/// A source of bytes is one function that begins, and returns the function that gives chunk after chunk:
///
/// ```swift
/// let countdown = RemoteContent(length: 3) {
///     var next: UInt8 = 3
///     return {
///         guard next > 0 else { return nil }
///         defer { next -= 1 }
///         return [next]
///     }
/// }
/// ```
public struct RemoteContent: AsyncSequence, Sendable {
    /// Gives the chunks of one pass.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let nextChunk: () async throws -> [UInt8]?

        /// The next chunk, or `nil` at the end.
        public mutating func next() async throws -> [UInt8]? {
            try await nextChunk()
        }
    }

    /// How many bytes a chunk has where this module chooses: 1 MiB.
    public static let chunkSize = 1 << 20

    /// How many bytes there are in all; `nil` where that isn't known before the end.
    public let length: Int64?

    private let makeIterator: @Sendable () -> () async throws -> [UInt8]?

    /// Creates a content from a source.
    ///
    /// - Parameters:
    ///   - length: How many bytes there are; `nil` where that isn't known. A write of another number of bytes fails.
    ///   - makeIterator: Begins a pass from the first byte and returns the function that gives its chunks, then `nil`.
    ///     A chunk may be empty. What that function captures is released when the pass ends or is dropped.
    public init(length: Int64?, _ makeIterator: @escaping @Sendable () -> () async throws -> [UInt8]?) {
        self.length = length
        self.makeIterator = makeIterator
    }

    /// Creates a content from bytes in memory.
    public init(_ bytes: [UInt8]) {
        self.init(length: Int64(bytes.count)) {
            var rest = bytes.isEmpty ? nil : bytes
            return { rest.take() }
        }
    }

    /// Begins a pass from the first byte.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(nextChunk: makeIterator())
    }

    /// Collects all bytes.
    ///
    /// - Parameter limit: How many bytes are accepted: what comes from a remote place must not fill the memory.
    /// - Returns: The bytes.
    /// - Throws: ``RemoteError/Code/wrongLength`` as soon as more are announced or come, and what the source throws.
    public func bytes(upTo limit: Int) async throws -> [UInt8] {
        let tooLong = RemoteError(
            .wrongLength,
            "A file has more than the \(limit) bytes that are expected of it. Another program may have written it."
        )
        guard length ?? 0 <= Int64(limit) else { throw tooLong }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(clamping: length ?? 0))
        for try await chunk in self {
            guard chunk.count <= limit - bytes.count else { throw tooLong }
            bytes += chunk
        }
        return bytes
    }
}

/// What follows on the first bytes of a file.
public struct RemoteContentRest: Sendable {
    /// How many bytes come before it.
    public let offset: Int64
    /// The bytes from there to the file's end.
    public let content: RemoteContent

    /// Creates a rest.
    ///
    /// - Parameters:
    ///   - content: The bytes to the file's end.
    ///   - offset: How many bytes come before them: not more than are kept.
    public init(_ content: RemoteContent, after offset: Int64) {
        self.content = content
        self.offset = offset
    }

    /// Whether what was written before an error is of use to the next write.
    package static func canFollow(after error: any Error) -> Bool {
        if error is CancellationError { return false }
        // Where there is no room, what arrived would only keep others from theirs.
        let final: [RemoteError.Code] = [.alreadyExists, .preconditionFailed, .wrongLength, .noSpace]
        return (error as? RemoteError).map { !final.contains($0.code) } ?? true
    }
}
