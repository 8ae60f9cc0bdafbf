import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// Status and lists.
extension S3Backend {
    /// Returns the file or the directory at a path: a key, found by HEAD, or a prefix of other keys.
    public func status(of path: RemotePath) async throws -> RemoteItem? {
        guard let name = path.lastComponent else {
            // The root exists if the bucket does.
            _ = try await page(below: .root, ["max-keys": "1"])
            return RemoteItem(directory: "")
        }
        try Task.checkCancellation()
        guard Self.canKeep(path.components) else { return nil }
        async let file = head(path)
        // Awaited first for its error: unlike a response to HEAD, its response has a body that explains the failure.
        async let isDirectory = self.isDirectory(path)
        let hasContent = try await isDirectory
        return try await file ?? (hasContent ? RemoteItem(directory: name) : nil)
    }

    /// Lists a directory, page by page.
    public func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try Task.checkCancellation()
        guard Self.canKeep(directory.components) else { return nil }
        let before = seen.changeCount
        async let file = directory == .root ? nil : head(directory)
        let key = location.directoryKey(directory)
        var items: [String: RemoteItem] = [:]
        var exists = directory == .root
        try await forEachPage(below: directory, ["delimiter": "/"]) { page in
            exists = exists || !page.objects.isEmpty || !page.prefixes.isEmpty
            for prefix in page.prefixes {
                guard let name = name(of: prefix, below: key), items[name] == nil else { continue }
                items[name] = RemoteItem(directory: name)
            }
            for object in page.objects {
                guard let name = name(of: object.key, below: key), !object.key.hasSuffix("/") else { continue }
                items[name] = RemoteItem(object, named: name)
            }
        }
        if !exists, try await file != nil { throw RemoteError.notADirectory(directory) }
        seen.note(items.values, in: directory, exists: exists, since: before, on: configuration.clock)
        return exists ? items.values.filter { !TemporaryName.isOne($0.name) }.sorted { $0.name < $1.name } : nil
    }

    /// The name of an item in a directory; `nil` for the directory itself, and for names that no path can have.
    private func name(of key: String, below directory: String) -> String? {
        let rest = key.utf8.dropFirst(directory.utf8.count)
        let name = String(decoding: rest.last == UInt8(ascii: "/") ? rest.dropLast() : rest, as: UTF8.self)
        return (try? RemotePath(components: [name])) == nil || !Self.canKeep([name]) ? nil : name
    }

    /// The file at a path; `nil` if there is none.
    func head(_ path: RemotePath) async throws -> RemoteItem? {
        guard let response = try await headers(of: path), let name = path.lastComponent else { return nil }
        return RemoteItem(
            name: name,
            kind: .file,
            size: response.contentLength ?? 0,
            modified: response.date("Last-Modified"),
            tag: response.first(name: "ETag").map { RemoteTag(entityTag: $0) }
        )
    }

    /// The headers that describe a file; `nil` if there is none.
    func headers(of path: RemotePath) async throws -> HTTPHeaders? {
        let response = try await perform(.HEAD, location.key(path))
        if [404, 410].contains(response.status) { return nil }
        if !response.isSuccess {
            // A response to HEAD has no body. A list request fails with an explanation, such as a wrong key or clock.
            _ = try await page(below: .root, ["max-keys": "1"])
        }
        try checkStored(response, at: path)
        return response.headers
    }

    /// Whether a path is a prefix of other keys.
    func isDirectory(_ path: RemotePath) async throws -> Bool {
        let page = try await page(below: path, ["max-keys": "1"])
        return !page.objects.isEmpty || !page.prefixes.isEmpty
    }

    // MARK: Pages

    /// Requests a page of the keys below a directory.
    ///
    /// Removals and moves trust it: it throws if the server lists other keys.
    private func page(below directory: RemotePath, _ query: [String: String]) async throws -> ObjectList {
        let prefix = location.directoryKey(directory)
        let query = query.merging(["list-type": "2", "prefix": prefix]) { first, _ in first }
        let response = try await perform(.GET, query: query)
        try checkRoute(response, at: directory)
        let list = try parsed(response, at: directory, ObjectList.init)
        guard (list.objects.map(\.key) + list.prefixes).allSatisfy({ $0.utf8.starts(with: prefix.utf8) }) else {
            throw foreignAnswer("lists keys outside of it", at: directory)
        }
        return list
    }

    /// Requests a list page by page, until a page has no continuation.
    private func forEachPage(
        below directory: RemotePath,
        _ query: [String: String] = [:],
        _ body: (ObjectList) -> Void
    ) async throws {
        var query = query
        var limits = ListLimits()
        while true {
            let page = try await page(below: directory, query)
            body(page)
            guard let continuation = page.continuation else { return }
            guard continuation != query["continuation-token"],
                limits.allowAnotherPage(after: page.objects.map(\.key) + page.prefixes)
            else { break }
            query["continuation-token"] = continuation
        }
        throw RemoteError(
            .unavailable,
            """
            The list of “\(directory)” on \(identity) doesn't end. Try again later. If that doesn't help, S3 clients can't \
            use this server, or the directory has too many files.
            """,
            path: directory
        )
    }

    /// Returns all objects below a directory, at any depth.
    func everything(below directory: RemotePath) async throws -> [ObjectList.Object] {
        var objects: [ObjectList.Object] = []
        try await forEachPage(below: directory) { objects += $0.objects }
        return objects
    }
}
