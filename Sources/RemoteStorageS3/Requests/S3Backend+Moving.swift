import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

// Copies, moves and removals.
extension S3Backend {
    /// The number of concurrent requests for the files of a directory.
    private static let parallelRequests = 16

    /// Copies a file on the server, or through this device if there is a condition.
    public func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try Task.checkCancellation()
        guard let parent = destination.parent else { throw RemoteError.rootIsFixed() }
        try checkName(destination)
        async let sourceStatus = status(of: source)
        async let destinationStatus = status(of: destination)
        async let unknown = unknownParents(parent, of: destination)
        guard let item = try await sourceStatus else { throw RemoteError.notFound(source) }
        guard item.kind == .file else { throw RemoteError.notAFile(source) }
        let (existing, missing) = try await (destinationStatus, unknown)
        try condition.check(existing, at: destination)
        guard source != destination else { return }
        guard condition == .always else {
            try await write(rereading(source, length: item.size), to: destination, when: condition)
            return
        }
        seen.expect(destination)
        let object = ObjectList.Object(key: location.key(source), size: item.size)
        try await copyObject(object, to: location.key(destination), source)
        seen.insert(missing)
    }

    /// Moves a file, or the files of a directory one by one: copies them, then removes the originals.
    public func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try Task.checkCancellation()
        guard source != .root, let parent = destination.parent else { throw RemoteError.rootIsFixed() }
        try checkName(destination)
        let item = try await itemToMove(source, to: destination)
        guard item.kind == .directory else {
            try await copy(source, to: destination, when: .always)
            // The copy is complete: a cancellation from here on doesn't undo the move.
            try await uncancelled { [location] in
                try await self.removeMoved([location.key(source)], from: source)
            }
            return
        }
        let keys = try await copyDirectory(source, to: destination, unknownDirectories(downTo: parent))
        try await uncancelled { try await self.removeMoved(keys, from: source) }
    }

    /// Copies what is in a directory.
    ///
    /// - Returns: The keys of the source whose files the destination now has, and of the directories that contain them.
    private func copyDirectory(
        _ source: RemotePath,
        to destination: RemotePath,
        _ unknown: [RemotePath]
    ) async throws -> [String] {
        let (from, to) = (location.directoryKey(source), location.directoryKey(destination))
        seen.forget(destination)
        seen.expect(destination)
        @Sendable func copied(_ key: String) -> String {
            to + String(decoding: key.utf8.dropFirst(from.utf8.count), as: UTF8.self)
        }
        let objects = try await everything(below: source)
        let keys = objects.map(\.key)
        // Another client has moved or removed the directory since its status was requested.
        guard !keys.isEmpty else { throw RemoteError.notFound(source) }
        // A directory that isn't empty needs no key of its own.
        let full = Set(directories(of: keys, below: from).map { Key($0) })
        do {
            let copies = objects.filter { !$0.key.hasSuffix("/") || !full.contains(Key($0.key)) }
            try await copies.concurrentMap(atMost: Self.parallelRequests) { object in
                try await self.copyObject(object, to: copied(object.key), source)
            }
            seen.insert(unknown)
            return keys
        } catch {
            // Without its source, a copy may be all that is left of a file: another client has moved the same directory.
            guard (error as? RemoteError)?.code != .notFound else { throw error }
            await uncancelled { try? await self.removeCopies(of: keys, of: source, at: destination, copied) }
            throw error
        }
    }

    /// Removes the copies of an incomplete move, except those whose source another client has moved or removed.
    private func removeCopies(
        of keys: [String],
        of source: RemotePath,
        at destination: RemotePath,
        _ copied: (String) -> String
    ) async throws {
        let left = Set(try await everything(below: source).map { Key($0.key) })
        let isSourceComplete = left.isSuperset(of: keys.map { Key($0) })
        try await removeObjects(
            keys.filter { left.contains(Key($0)) }.map { copied($0) }
                + (isSourceComplete ? [location.directoryKey(destination)] : []),
            destination
        )
    }

    /// Removes the keys that were copied, and no keys that another client has added since.
    private func removeMoved(_ keys: [String], from source: RemotePath) async throws {
        guard let parent = source.parent else { throw RemoteError.rootIsFixed() }
        try await putDirectory(parent)
        seen.forget(source)
        try await removeObjects(keys.filter { !$0.hasSuffix("/") }, source)
        guard keys != [location.key(source)] else { return }
        // Some servers keep the keys of directories that were never created explicitly.
        let directory = location.directoryKey(source)
        let moved = Set((keys + directories(of: keys, below: directory) + [directory]).map { Key($0) })
        let left = try await everything(below: source).map(\.key).filter { !moved.contains(Key($0)) }
        let kept = Set((directories(of: left, below: directory) + left).map { Key($0) })
        try await removeObjects(moved.subtracting(kept).map(\.text).filter { $0.hasSuffix("/") }, source)
    }

    /// Removes a file, or all keys that begin with a directory's key.
    public func remove(_ path: RemotePath) async throws {
        try Task.checkCancellation()
        guard let parent = path.parent else { throw RemoteError.rootIsFixed() }
        guard Self.canKeep(path.components) else { return }
        async let file = head(path)
        let below = try await everything(below: path).map(\.key)
        let isFile = try await file != nil
        guard isFile || !below.isEmpty else { return }
        try await putDirectory(parent)
        seen.forget(path)
        let key = location.directoryKey(path)
        let directories = below.isEmpty ? [] : directories(of: below, below: key) + [key]
        try await removeObjects(below + directories + (isFile ? [location.key(path)] : []), path)
    }

    /// The keys of a directory and all directories below it that aren't empty, whether or not those keys exist.
    private func directories(of keys: [String], below directory: String) -> [String] {
        var found: Set<Key> = []
        for key in keys {
            var names = key.utf8.dropFirst(directory.utf8.count).split(separator: UInt8(ascii: "/")).dropLast()
            while !names.isEmpty {
                let name = names.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
                guard found.insert(Key("\(directory)\(name)/")).inserted else { break }
                names.removeLast()
            }
        }
        if keys.contains(where: { $0.utf8.count > directory.utf8.count }) { found.insert(Key(directory)) }
        return found.map(\.text)
    }

    /// Removes keys, those of directories last and deepest first, so that a partly removed directory stays visible.
    ///
    /// Some servers report a directory as removed, but keep it as long as it contains another directory. They also keep a
    /// directory that was never created explicitly, until it is removed.
    private func removeObjects(_ keys: [String], _ path: RemotePath) async throws {
        let distinct = Set(keys.map { Key($0) }).map(\.text)
        let levels = Dictionary(grouping: distinct) { key in
            key.hasSuffix("/") ? key.utf8.count { $0 == UInt8(ascii: "/") } : Int.max
        }
        for (_, keys) in levels.sorted(by: { $0.key > $1.key }) {
            try await keys.concurrentMap(atMost: Self.parallelRequests) { key in
                try await self.removeObject(key, path)
            }
        }
    }

    /// Removes a key, or throws if the response doesn't say that it is removed or was absent.
    private func removeObject(_ key: String, _ path: RemotePath) async throws {
        let response = try await perform(.DELETE, key)
        if response.status == 204 || S3Failure(response)?.code == "NoSuchKey" { return }
        try checkRoute(response, at: path)
        try check(response, at: path)
        // Another success than S3's may be a login page's: only the server can say whether the key is gone.
        guard try await perform(.HEAD, key).status == 404 else {
            throw foreignAnswer("doesn't say that it was removed", at: path)
        }
    }
}

/// A key that is compared by its bytes: two keys of a bucket may be canonically equivalent, and therefore equal as strings.
private struct Key: Hashable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (one: Key, other: Key) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }

    func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
    }
}
