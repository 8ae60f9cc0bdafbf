import RemoteStorage
import ThreadSupport

/// A folder whose connection is cut after a number of bytes of large files.
actor CuttingBackend: RemoteBackend {
    private let folder: LocalFolderBackend
    private let condition = Locked<(left: Int64?, error: any Error)>((nil, RemoteError(.unavailable, "cut off")))
    /// The name of a file that can't be reached.
    private let unreachable = Locked<String?>(nil)
    /// The number of bytes of large files that were transferred, in either direction.
    private let passed = Locked<Int64>(0)

    nonisolated var identity: String { folder.identity }

    init(_ folder: LocalFolderBackend) { self.folder = folder }

    /// Starts counting, and cuts the connection after `count` bytes, or never if it's `nil`.
    func cut(after count: Int64?, by error: any Error = RemoteError(.unavailable, "cut off")) {
        condition.withLock { $0 = (count, error) }
        passed.withLock { $0 = 0 }
    }

    /// Makes files of that name unreachable from now on, or none if it's `nil`.
    func hide(_ name: String?) { unreachable.withLock { $0 = name } }

    var passedBytes: Int64 { passed.withLock { $0 } }

    private nonisolated func line(_ content: RemoteContent) -> RemoteContent {
        RemoteContent(length: content.length) { [condition, passed] in
            var iterator = content.makeAsyncIterator()
            return {
                guard let chunk = try await iterator.next() else { return nil }
                let sum = passed.withLock { passed in
                    passed += Int64(chunk.count)
                    return passed
                }
                let (limit, error) = condition.withLock { ($0.left, $0.error) }
                if let limit, sum > limit { throw error }
                return chunk
            }
        }
    }

    func capabilities() async throws -> RemoteCapabilities { try await folder.capabilities() }

    func status(of path: RemotePath) async throws -> RemoteItem? { try await folder.status(of: path) }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? { try await folder.list(directory) }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        guard path.lastComponent != unreachable.withLock(\.self) else { throw RemoteError(.unavailable, "cut off") }
        guard path.lastComponent?.hasPrefix("WholeStore") == true else {
            return try await folder.read(path, range: range)
        }
        return try await folder.read(path, range: range).map(line)
    }

    func createDirectory(at path: RemotePath) async throws { try await folder.createDirectory(at: path) }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try await folder.write(content, to: path, when: condition)
    }

    func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await folder.resumeWrite(to: path, when: condition, receipts: receipts) { kept in
            let rest = try await rest(kept)
            return RemoteContentRest(line(rest.content), after: rest.offset)
        }
    }

    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try await folder.copy(source, to: destination, when: condition)
    }

    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await folder.move(source, to: destination)
    }

    func remove(_ path: RemotePath) async throws { try await folder.remove(path) }
}
