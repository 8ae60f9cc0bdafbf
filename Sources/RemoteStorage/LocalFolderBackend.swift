import FileSupport
public import Foundation
import SystemPackage
import ThreadSupport

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A folder of this device, or of a share that is mounted here.
///
/// - No request leaves the folder: symbolic links inside are listed and removed, but never followed.
/// - A file is written under a temporary name (`.storesync-….tmp`), synchronized with the medium and then renamed, so that
///   neither a reader nor a crash exposes a partial file. Temporary files that a crash leaves are hidden from lists. A write
///   to their directory removes them once they haven't changed for a week.
/// - New files and directories get the permissions that the process's umask leaves.
/// - Several processes and devices may use the folder at once. ``WriteCondition/ifMatches(_:)`` isn't safe against them:
///   file systems can't compare and rename in one step.
/// - The folder must exist. A missing folder is an error (``RemoteError/Code/unavailable``): it's never created and never
///   mistaken for an empty one.
/// - Requests throw the errors that ``RemoteBackend`` names for them; `CancellationError` if the task is cancelled; and what a
///   content throws that is written. ``capabilities()`` throws nothing.
public actor LocalFolderBackend: RemoteBackend {
    /// The given identity, or the folder's location as a `file:` URL without symbolic links.
    public nonisolated let identity: String
    private let folder: Folder
    private let executor: (any TaskExecutor)?
    private var watches: [Watch] = []

    /// The watch of a directory, which ends with the reader of its signals.
    private struct Watch {
        let directory: RemotePath
        weak let files: FileWatch?
    }

    /// Creates a backend for a folder, which needn't exist before the first request.
    ///
    /// - Parameters:
    ///   - root: The folder. Links on the way to it are followed once, now. If one leads elsewhere later, create another backend.
    ///   - identity: The name by which this device remembers the folder, where its path may change: an app's container has another
    ///     path after an update of the app, and so has a folder that the user picks. `nil` for the folder's location.
    ///   - executor: The executor on which requests block; `nil` for threads reserved for blocking calls.
    public init(root: URL, identity: String? = nil, executor: (any TaskExecutor)? = nil) {
        let path = realPath(FilePath(root.absoluteURL.path(percentEncoded: false))).string
        self.identity = identity ?? URL(filePath: path.asKey, directoryHint: .notDirectory).absoluteString
        folder = Folder(path: path)
        self.executor = executor
    }

    /// All capabilities but conditional replacement; resumable writes only without a network in between.
    public func capabilities() async throws -> RemoteCapabilities {
        let always: RemoteCapabilities = [
            .exclusiveCreate, .exclusiveDirectoryMove, .atomicReplace, .consistentRead, .serverSideCopy, .rangedRead,
        ]
        let isLocal = try await runBlocking(on: executor) { [folder] in folder.isOnThisDevice }
        return isLocal && PendingFile.canBeResumed ? always.union(.resumableWrite) : always
    }

    /// Returns the item at a path, without following a link there.
    public func status(of path: RemotePath) async throws -> RemoteItem? {
        try await perform(path) { folder in try folder.item(at: path) }
    }

    /// Returns the items in a directory, without names that aren't UTF-8 and without unfinished files.
    public func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        // The system sends no event when a file system is mounted on the way to the directory.
        for watch in watches where watch.directory == directory { watch.files?.lookAgain() }
        return try await perform(directory) { folder in try folder.items(in: directory) }
    }

    /// Creates a directory and its missing parents, and synchronizes each with the medium.
    public func createDirectory(at path: RemotePath) async throws {
        try await perform(path) { folder in _ = try folder.makeDirectory(at: path) }
    }

    /// Opens a file, whose content stays readable even after the file is replaced or removed.
    public func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await perform(path) { [executor] folder in
            guard let (file, size) = try folder.openToRead(path) else { return nil }
            return RemoteContent(of: file, range: (range ?? 0..<size).clamped(to: 0..<size), executor: executor)
        }
    }

    /// Writes a file under a temporary name and finally gives it its own name, by `link` or `rename`.
    @discardableResult
    public func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        guard let parent = path.parent else { throw RemoteError.rootIsFixed() }
        let pending = try await perform(path) { folder in
            try condition.check(folder.item(at: path), at: path)
            return try PendingFile.Writer(in: folder.makeDirectory(at: parent))
        }
        do {
            return try await finish(pending, with: content, at: path, when: condition)
        } catch {
            // Not with `perform`, which throws in a cancelled task: that task must clean up too.
            try? await runBlocking(on: executor) { pending.file.discard() }
            throw error
        }
    }

    /// Writes a file under a temporary name that the next attempt finds again.
    ///
    /// After a restart of the device the next attempt starts over: bytes that weren't synchronized with the medium may be
    /// lost.
    @discardableResult
    public func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        guard let parent = path.parent, let name = path.lastComponent else { throw RemoteError.rootIsFixed() }
        let pending = try await perform(path) { folder in
            try condition.check(folder.item(at: path), at: path)
            let directory = try folder.makeDirectory(at: parent)
            let resumed = folder.isOnThisDevice ? try PendingFile.Writer(resuming: name, in: directory) : nil
            return try resumed ?? PendingFile.Writer(in: directory)
        }
        do {
            let rest = try await rest(pending.keptBytes)
            precondition((0...pending.keptBytes).contains(rest.offset), "the rest follows bytes that aren't kept")
            try await perform(path) { _ in try pending.open.truncate(to: rest.offset) }
            return try await finish(pending, with: rest.content, at: path, when: condition)
        } catch {
            if pending.isKept, RemoteContentRest.canFollow(after: error) {
                pending.open.unlock()
            } else {
                try? await runBlocking(on: executor) { pending.file.discard() }
            }
            throw error
        }
    }

    private func finish(
        _ pending: PendingFile.Writer,
        with content: RemoteContent,
        at path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        guard let name = path.lastComponent else { throw RemoteError.rootIsFixed() }
        var written: Int64 = 0
        for try await chunk in content {
            try await perform(path) { _ in try pending.open.write(chunk) }
            written += Int64(chunk.count)
        }
        if let length = content.length, length != written {
            throw RemoteError.wrongLength(path, announced: length, actual: written)
        }
        return try await perform(path) { _ in
            try pending.open.synchronize()
            return try pending.file.commit(as: name, at: path, when: condition)
        }
    }

    /// Copies a file by a hard link, or byte by byte if the file system has no hard links.
    public func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        let linked = try await perform(destination) { folder in
            try folder.link(source, to: destination, when: condition)
        }
        guard !linked else { return }
        guard let content = try await read(source, range: nil) else { throw RemoteError.notFound(source) }
        try await write(content, to: destination, when: condition)
    }

    /// Moves a file or directory by a rename that replaces nothing.
    public func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await perform(source) { folder in try folder.move(source, to: destination) }
    }

    /// Removes a file, a link, or a directory with its contents, which has at most 100 levels.
    public func remove(_ path: RemotePath) async throws {
        guard let name = path.lastComponent else { throw RemoteError.rootIsFixed() }
        try await perform(path) { folder in
            guard let parent = try folder.parent(of: path) else { return }
            do {
                try parent.removeTree(name, maximumDepth: 100)
            } catch is Directory.TooDeep {
                throw RemoteError(
                    .notAllowed,
                    """
                    “\(path)” has more than 100 levels of folders, which no version of this package creates. Remove it with \
                    the file manager.
                    """,
                    path: path
                )
            }
            try parent.synchronize()
        }
    }

    /// Signals changes that programs of this device make; a share that other devices change has no signals.
    public func changes(in directory: RemotePath) async -> AsyncStream<Void>? {
        let path = directory.components.reduce(FilePath(folder.path)) { $0.appending($1) }
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let watch = try? await runBlocking(on: executor) { [folder] in
            try folder.isOnThisDevice ? FileWatch(directory: path.string) { continuation.yield() } : nil
        }
        guard let watch else { return nil }
        watches.removeAll { $0.files == nil }
        watches.append(Watch(directory: directory, files: watch))
        continuation.onTermination = { _ in withExtendedLifetime(watch) {} }
        return stream
    }

    /// Runs a blocking body, and describes a failed system call as an error of `path`.
    private func perform<Result: Sendable>(
        _ path: RemotePath,
        _ body: @Sendable (Folder) throws -> Result
    ) async throws -> Result {
        try Task.checkCancellation()
        return try await runBlocking(on: executor) { [folder] in
            do {
                return try body(folder)
            } catch let error as Errno {
                throw RemoteError(error, at: path, in: folder.path)
            }
        }
    }
}

/// Returns a path with its links resolved, as far as its components exist now.
private func realPath(_ path: FilePath) -> FilePath {
    if let resolved = path.string.canonicalPath { return FilePath(resolved) }
    guard let name = path.lastComponent else { return path }
    return realPath(path.removingLastComponent()).appending(name)
}
