import RemoteStorage
import ThreadSupport

/// A folder that calls a hook before and after every request that changes something, and before every other request.
actor ObservedBackend: RemoteBackend {
    private let folder: LocalFolderBackend
    private let allowed: RemoteCapabilities?
    private let hook: @Sendable (String) throws -> Void

    /// How many bytes were written to files.
    let writtenBytes = Locked<Int64>(0)

    nonisolated var identity: String { folder.identity }

    /// - Parameters: `allowed` are the capabilities that it reports, or all of the folder's if this is `nil`.
    init(
        _ folder: LocalFolderBackend,
        _ allowed: RemoteCapabilities?,
        _ hook: @escaping @Sendable (String) throws -> Void
    ) {
        self.folder = folder
        self.allowed = allowed
        self.hook = hook
    }

    private func observing<Result>(_ change: String, _ body: () async throws -> Result) async throws -> Result {
        try hook("before \(change)")
        let result = try await body()
        try hook("after \(change)")
        return result
    }

    func capabilities() async throws -> RemoteCapabilities {
        let all = try await folder.capabilities()
        return allowed.map { all.intersection($0) } ?? all
    }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        try hook("before status of \(path)")
        return try await folder.status(of: path)
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try hook("before list of \(directory)")
        return try await folder.list(directory)
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try hook("before read of \(path)")
        return try await folder.read(path, range: range)
    }

    func createDirectory(at path: RemotePath) async throws {
        try await observing("directory \(path)") { try await folder.createDirectory(at: path) }
    }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try await observing("write of \(path)") {
            let item = try await folder.write(content, to: path, when: condition)
            writtenBytes.withLock { $0 += item.size }
            return item
        }
    }

    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try await observing("copy to \(destination)") {
            try await folder.copy(source, to: destination, when: condition)
        }
    }

    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await observing("move to \(destination)") { try await folder.move(source, to: destination) }
    }

    func remove(_ path: RemotePath) async throws {
        try await observing("removal of \(path)") { try await folder.remove(path) }
    }
}
