import RemoteStorage

@testable import StoreSync

/// One device's view of a storage: files may be hidden from the device, and its process may die between two requests.
actor VeiledBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private var hidden: Set<RemotePath> = []
    private var showsAllOnWrite = false
    private var requestsLeft: Int?

    init(_ base: any RemoteBackend) { self.base = base }

    /// Hides files, and directories with everything in them.
    func hide(_ paths: some Sequence<RemotePath>) { hidden.formUnion(paths) }

    /// Shows everything again.
    func showAll() { hidden = [] }

    /// Shows everything again as soon as something is written.
    func showAllOnWrite() { showsAllOnWrite = true }

    /// Lets `count` more requests through, or all if it's `nil`.
    func die(afterRequests count: Int?) { requestsLeft = count }

    private func isHidden(_ path: RemotePath) -> Bool { hidden.contains { path.isEqualToOrInside($0) } }

    private func begin() throws {
        guard let left = requestsLeft else { return }
        guard left > 0 else { throw RemoteError(.unavailable, "The device is dead.") }
        requestsLeft = left - 1
    }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        try begin()
        return isHidden(path) ? nil : try await base.status(of: path)
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try begin()
        guard !isHidden(directory) else { return nil }
        return try await base.list(directory)?.filter { item in
            guard let path = try? directory.appending(item.name) else { return true }
            return !isHidden(path)
        }
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try begin()
        return isHidden(path) ? nil : try await base.read(path, range: range)
    }

    func createDirectory(at path: RemotePath) async throws {
        try begin()
        try await base.createDirectory(at: path)
    }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try begin()
        if showsAllOnWrite { showAll() }
        return try await base.write(content, to: path, when: condition)
    }

    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try begin()
        try await base.copy(source, to: destination, when: condition)
    }

    func remove(_ path: RemotePath) async throws {
        try begin()
        try await base.remove(path)
    }
}
