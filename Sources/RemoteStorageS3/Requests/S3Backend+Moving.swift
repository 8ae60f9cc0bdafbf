import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// Copies, moves and removals.
extension S3Backend {
    /// How many requests about the files of a directory are sent side by side.
    private static let parallelRequests = 16
    /// How large a file may be that the server copies by one request.
    private static let largestCopy: Int64 = 5 << 30

    /// Copies a file at the server; under a condition, or if it is huge, through this device.
    public func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try Task.checkCancellation()
        guard let parent = destination.parent else { throw RemoteError.isRoot() }
        try checkName(destination)
        async let sourceStatus = status(of: source)
        async let destinationStatus = status(of: destination)
        async let unknown = unknownParents(parent, of: destination)
        guard let item = try await sourceStatus else { throw RemoteError.notFound(source) }
        guard item.kind == .file else { throw RemoteError.notAFile(source) }
        let (existing, missing) = try await (destinationStatus, unknown)
        try condition.check(existing, at: destination)
        guard source != destination else { return }
        guard condition == .always, item.size <= Self.largestCopy else {
            try await write(reread(source, item), to: destination, when: condition)
            return
        }
        async let directories: Void? = try? makeDirectories(missing)
        try await copyObject(location.key(source), to: location.key(destination), source)
        await directories
    }

    /// A file's bytes, asked for anew by every pass.
    private func reread(_ path: RemotePath, _ item: RemoteItem) -> RemoteContent {
        RemoteContent(length: item.size) { [self] in
            var iterator: RemoteContent.AsyncIterator?
            return {
                if iterator == nil {
                    guard let content = try await self.read(path, range: nil) else { throw RemoteError.notFound(path) }
                    iterator = content.makeAsyncIterator()
                }
                return try await iterator?.next()
            }
        }
    }

    private func copyObject(_ source: String, to destination: String, _ path: RemotePath) async throws {
        let headers = [("X-Amz-Copy-Source", location.copySource(source))]
        // Some servers don't copy the key of a directory, of which there is nothing to copy.
        let response =
            source.hasSuffix("/")
            ? try await perform(.PUT, destination, payload: S3Payload([]))
            : try await perform(.PUT, destination, headers: headers)
        try check(response, at: path)
    }

    /// Moves a file, or the files of a directory one by one: copies them, then removes the originals.
    public func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try Task.checkCancellation()
        guard source != .root, let parent = destination.parent else { throw RemoteError.isRoot() }
        try checkName(destination)
        async let sourceStatus = status(of: source)
        async let destinationStatus = status(of: destination)
        let (item, existing) = try await (sourceStatus, destinationStatus)
        guard let item else { throw RemoteError.notFound(source) }
        guard destination == source || !destination.isEqualToOrInside(source) else {
            throw RemoteError.isInsideItself(source, destination)
        }
        guard existing == nil else { throw RemoteError.alreadyExists(destination) }
        if item.kind == .file {
            try await copy(source, to: destination, when: .always)
            return try await removeObjects([location.key(source)], source)
        }
        forget(source)
        try await makeDirectories(unknownDirectories(downTo: parent) + [destination])
        let objects = try await everything(below: source)
        let length = location.directoryKey(source).utf8.count
        let target = location.directoryKey(destination)
        @Sendable func copied(_ key: String) -> String {
            target + String(decoding: key.utf8.dropFirst(length), as: UTF8.self)
        }
        do {
            try await forEach(objects.filter { $0.key.utf8.count > length }) { object in
                try await self.copyObject(object.key, to: copied(object.key), source)
            }
        } catch {
            // A task of its own isn't cancelled with this one, which waits for it.
            await Task { try? await self.removeObjects(objects.map { copied($0.key) } + [target], destination) }.value
            throw error
        }
        try await removeObjects(objects.map(\.key), source)
    }

    /// Removes a file, or all whose keys begin with a directory's.
    public func remove(_ path: RemotePath) async throws {
        try Task.checkCancellation()
        guard path != .root else { throw RemoteError.isRoot() }
        guard Self.canKeep(path.components) else { return }
        forget(path)
        let below = try await everything(below: path)
        try await removeObjects([location.key(path)] + below.map(\.key), path)
    }

    /// Removes keys: those of directories last, the deepest first, so that what is removed by half still shows.
    ///
    /// Some servers keep a directory, and say that they removed it, as long as there is one in it.
    private func removeObjects(_ keys: [String], _ path: RemotePath) async throws {
        let levels = Dictionary(grouping: keys) { key in
            key.hasSuffix("/") ? key.utf8.count { $0 == UInt8(ascii: "/") } : Int.max
        }
        for (_, keys) in levels.sorted(by: { $0.key > $1.key }) {
            try await forEach(keys) { key in
                let response = try await self.perform(.DELETE, key)
                if response.status != 404 { try await self.check(response, at: path) }
            }
        }
    }

    /// Does something about many keys, some at a time.
    private func forEach<Element: Sendable>(
        _ elements: [Element],
        _ body: @escaping @Sendable (Element) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, element) in elements.enumerated() {
                if index >= Self.parallelRequests { try await group.next() }
                group.addTask { try await body(element) }
            }
            try await group.waitForAll()
        }
    }
}
