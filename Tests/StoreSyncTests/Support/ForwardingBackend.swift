import RemoteStorage

/// A backend that forwards every request that it doesn't implement itself to another backend.
protocol ForwardingBackend: RemoteBackend {
    nonisolated var base: any RemoteBackend { get }
}

extension ForwardingBackend {
    nonisolated var identity: String { base.identity }

    func capabilities() async throws -> RemoteCapabilities { try await base.capabilities() }
    func status(of path: RemotePath) async throws -> RemoteItem? { try await base.status(of: path) }
    func list(_ directory: RemotePath) async throws -> [RemoteItem]? { try await base.list(directory) }
    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await base.read(path, range: range)
    }
    func createDirectory(at path: RemotePath) async throws { try await base.createDirectory(at: path) }
    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try await base.write(content, to: path, when: condition)
    }
    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try await base.copy(source, to: destination, when: condition)
    }
    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await base.move(source, to: destination)
    }
    func remove(_ path: RemotePath) async throws { try await base.remove(path) }
}
