/// A backend that forwards every request to another backend, except the requests that it implements itself.
///
/// ```swift
/// /// An archive: nothing is removed from it.
/// actor Archive: ForwardingBackend {
///     nonisolated let base: any RemoteBackend
///
///     init(_ base: any RemoteBackend) { self.base = base }
///
///     func remove(_ path: RemotePath) async throws {
///         throw RemoteError(.notAllowed, "“\(path)” is in an archive. Keep it there.", path: path)
///     }
/// }
/// ```
///
/// A forwarded request throws what ``base`` throws. Requests don't call each other. A type that changes what is written implements both
/// ``RemoteBackend/write(_:to:when:)`` and ``RemoteBackend/resumeWrite(to:when:receipts:_:)``.
public protocol ForwardingBackend: RemoteBackend {
    /// The backend that requests are forwarded to.
    nonisolated var base: any RemoteBackend { get }
}

extension ForwardingBackend {
    /// The identity of ``base``.
    public nonisolated var identity: String { base.identity }

    /// Forwards the request.
    public func capabilities() async throws -> RemoteCapabilities { try await base.capabilities() }

    /// Forwards the request.
    public func knownCapabilities() async throws -> RemoteCapabilities? { try await base.knownCapabilities() }

    /// Forwards the request.
    public func status(of path: RemotePath) async throws -> RemoteItem? { try await base.status(of: path) }

    /// Forwards the request.
    public func list(_ directory: RemotePath) async throws -> [RemoteItem]? { try await base.list(directory) }

    /// Forwards the request.
    public func createDirectory(at path: RemotePath) async throws { try await base.createDirectory(at: path) }

    /// Forwards the request.
    public func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await base.read(path, range: range)
    }

    /// Forwards the request.
    @discardableResult
    public func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try await base.write(content, to: path, when: condition)
    }

    /// Forwards the request.
    @discardableResult
    public func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await base.resumeWrite(to: path, when: condition, receipts: receipts, rest)
    }

    /// Forwards the request.
    public func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try await base.copy(source, to: destination, when: condition)
    }

    /// Forwards the request.
    public func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await base.move(source, to: destination)
    }

    /// Forwards the request.
    public func remove(_ path: RemotePath) async throws { try await base.remove(path) }

    /// Forwards the request.
    public func changes(in directory: RemotePath) async -> AsyncStream<Void>? { await base.changes(in: directory) }
}
