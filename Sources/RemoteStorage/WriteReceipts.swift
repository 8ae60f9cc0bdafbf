/// What a backend notes on this device of a write that may be cut off.
///
/// The caller of ``RemoteBackend/resumeWrite(to:when:receipts:_:)`` keeps the bytes, for instance in a file, and doesn't
/// interpret them. They belong to what the caller remembers of the content: a caller that forgets the content that it sent
/// last forgets the receipts with it. What can't be read or written is transferred again, so no method throws.
public protocol WriteReceipts: Sendable {
    /// Reads what was noted of the last write to the same path.
    ///
    /// - Returns: The bytes, of which the last ones may be missing; none if they are lost.
    func read() async -> [UInt8]

    /// Replaces everything that was noted, and returns when no former receipt can be read any more.
    func replace(with bytes: [UInt8]) async

    /// Adds bytes at the end; several callers may do so at the same time.
    func append(_ bytes: [UInt8]) async
}

/// Receipts in memory, for tests and for writes that only this process resumes.
public actor InMemoryReceipts: WriteReceipts {
    private var bytes: [UInt8] = []

    /// Creates receipts of which none is noted.
    public init() {}

    /// The bytes that were noted.
    public func read() async -> [UInt8] { bytes }

    /// Replaces the bytes.
    public func replace(with bytes: [UInt8]) async { self.bytes = bytes }

    /// Adds bytes.
    public func append(_ bytes: [UInt8]) async { self.bytes += bytes }
}
