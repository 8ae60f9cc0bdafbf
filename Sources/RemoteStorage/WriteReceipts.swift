/// A backend's notes, on this device, about a write that may be interrupted.
///
/// The caller of ``RemoteBackend/resumeWrite(to:when:receipts:_:)`` keeps the bytes, for instance in a file, and doesn't
/// interpret them. The receipts belong to the caller's record of the content: a caller that discards that record discards
/// the receipts with it. If receipts can't be read or written, the content is transferred again, so no method throws.
public protocol WriteReceipts: Sendable {
    /// Reads the receipts of the last write to the same path.
    ///
    /// - Returns: The bytes, of which the last ones may be missing; none if they are lost.
    func read() async -> [UInt8]

    /// Replaces all receipts, and returns when no former receipt can be read any more.
    func replace(with bytes: [UInt8]) async

    /// Adds bytes at the end; several callers may do so at the same time.
    func append(_ bytes: [UInt8]) async
}

/// Receipts in memory, for tests and for writes that only this process resumes.
public actor InMemoryReceipts: WriteReceipts {
    private var bytes: [UInt8] = []

    /// Creates empty receipts.
    public init() {}

    /// Returns the recorded bytes.
    public func read() async -> [UInt8] { bytes }

    /// Replaces the bytes.
    public func replace(with bytes: [UInt8]) async { self.bytes = bytes }

    /// Adds bytes.
    public func append(_ bytes: [UInt8]) async { self.bytes += bytes }
}
