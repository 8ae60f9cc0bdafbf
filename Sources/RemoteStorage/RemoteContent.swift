/// The bytes of a file, chunk by chunk.
///
/// A content to be written can be iterated again from its beginning, so that a write can be retried. A content returned
/// by a read may not support that: iterate it once.
///
/// A source of bytes is a function that starts a pass and returns another function, which returns chunk after chunk:
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
    /// Returns the chunks of one pass.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let nextChunk: () async throws -> [UInt8]?

        /// Returns the next chunk, or `nil` at the end.
        ///
        /// - Throws: What the source throws.
        public mutating func next() async throws -> [UInt8]? {
            try await nextChunk()
        }
    }

    /// The default number of bytes in a chunk: 1 MiB.
    public static let chunkSize = 1 << 20

    /// The number of bytes in all; `nil` if it isn't known before the end.
    public let length: Int64?

    private let makeIterator: @Sendable () -> () async throws -> [UInt8]?

    /// Creates a content from a source.
    ///
    /// - Parameters:
    ///   - length: The number of bytes; `nil` if it isn't known. A write of another number of bytes fails.
    ///   - makeIterator: Starts a pass from the first byte and returns the function that returns its chunks, then `nil`.
    ///     A chunk may be empty. The captures of that function are released when the pass ends or is discarded.
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

    /// Starts a pass from the first byte.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(nextChunk: makeIterator())
    }

    /// Collects all bytes.
    ///
    /// - Parameter limit: The maximum number of bytes, so that an untrusted storage can't fill the memory.
    /// - Returns: The bytes.
    /// - Throws: ``RemoteError/Code/wrongLength`` as soon as more are announced or received, and what the source throws.
    public func bytes(upTo limit: Int) async throws -> [UInt8] {
        let tooLong = RemoteError(
            .wrongLength,
            "A file has more than the \(limit) bytes that are expected. Another program may have written it."
        )
        guard length ?? 0 <= Int64(limit) else { throw tooLong }
        var bytes: [UInt8] = []
        // An untrusted storage may announce more than it has.
        bytes.reserveCapacity(Swift.min(Int(clamping: length ?? 0), Self.chunkSize))
        for try await chunk in self {
            guard chunk.count <= limit - bytes.count else { throw tooLong }
            bytes += chunk
        }
        return bytes
    }
}

/// The rest of a file, after its first bytes.
public struct RemoteContentRest: Sendable {
    /// The number of bytes before the rest.
    public let offset: Int64
    /// The bytes from there to the file's end.
    public let content: RemoteContent

    /// Creates a rest.
    ///
    /// - Parameters:
    ///   - content: The bytes to the file's end.
    ///   - offset: The number of bytes before them, at most the number of kept bytes.
    public init(_ content: RemoteContent, after offset: Int64) {
        self.content = content
        self.offset = offset
    }

    /// Whether the next write can use the bytes that were written before an error.
    package static func canFollow(after error: any Error) -> Bool {
        if error is CancellationError { return false }
        // On a full storage, kept bytes would only take space from other files.
        let final: [RemoteError.Code] = [.alreadyExists, .preconditionFailed, .wrongLength, .noSpace]
        return (error as? RemoteError).map { !final.contains($0.code) } ?? true
    }
}
