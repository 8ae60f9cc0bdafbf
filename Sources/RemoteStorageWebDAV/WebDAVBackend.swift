import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

/// A share on a WebDAV server.
///
/// - What the server can be trusted with is known for Apache, lighttpd, nginx and WsgiDAV. Any other one is tried, once and
///   before the first write, with what a probe can disprove.
/// - A file is replaced by PUT where that is atomic, else by moving a finished one in its place. One is created by moving a
///   directory, of which every server tried lets one win; a condition is trusted where it held in races.
/// - Apache says how long a file is and opens it then: a file that is replaced in between is read as long as the former one.
///   ``/RemoteStorage/RemoteBackend/bytes(at:upTo:)`` looks once more where that may be.
/// - What is unfinished has a name like `.storesync-….tmp`, in the directory of the file it will be, and isn't listed.
/// - Requests are sent again when an answer is lost or the server is too busy. What may have been carried out already is
///   looked into, not guessed.
/// - Redirects are followed on the same server only. Basic and Digest are answered when the server asks, and credentials go
///   to no other machine without TLS.
///
/// The share must be there: an absent one is an error (``/RemoteStorage/RemoteError/Code/unavailable``), never created. nginx lists no names
/// that begin with a dot, although they can be written and read there.
public actor WebDAVBackend: RemoteBackend {
    /// The share, as `webdavs://host:port/path`.
    public nonisolated let identity: String
    let location: ShareLocation
    let settings: HTTPSettings
    let transport: any HTTPSending
    /// What the server is, once that is known.
    private var profile: ServerProfile?
    /// Asks the server who it is, beside the first request.
    private var introduction: Task<HTTPHeaders, any Error>?
    /// Whether the share was seen.
    private var isThere = false
    var directories = KnownDirectories()
    /// How many of our own requests are making each directory.
    private var makers: [RemotePath: Int] = [:]

    /// Takes a share, to which it connects with the first request.
    public init(_ configuration: WebDAVConfiguration) {
        self.init(configuration, transport: nil)
    }

    init(_ configuration: WebDAVConfiguration, transport: (any HTTPSending)?) {
        var components = URLComponents(url: configuration.url, resolvingAgainstBaseURL: true) ?? URLComponents()
        components.scheme = configuration.url.scheme == "https" ? "webdavs" : "webdav"
        components.host = components.host?.lowercased()
        if components.port == (configuration.url.scheme == "https" ? 443 : 80) { components.port = nil }
        while components.percentEncodedPath.hasSuffix("/") { components.percentEncodedPath.removeLast() }
        identity = components.string ?? configuration.url.absoluteString
        location = ShareLocation(configuration.url)
        settings = configuration.settings(name: identity)
        self.transport =
            transport
            ?? HTTPTransport(settings, WebDAVAuthentication(configuration.credentials, name: identity))
    }

    // MARK: The server

    /// What the server can be trusted with; an unknown one is tried first, which writes to it.
    public func capabilities() async throws -> RemoteCapabilities {
        try await serverProfile().capabilities
    }

    /// What the server can be trusted with, as far as that is known without writing; `nil` for an unknown one.
    public func knownCapabilities() async throws -> RemoteCapabilities? {
        if profile == nil { profile = try await ServerProfile.recognise(introduce()) }
        return profile?.capabilities
    }

    func serverProfile() async throws -> ServerProfile {
        if let profile { return profile }
        let recognised = try await ServerProfile.recognise(introduce())
        // Others may have come here meanwhile: they found the same.
        let found = if let recognised { recognised } else { ServerProfile.unknown(movesExclusively: try await probe()) }
        profile = found
        return found
    }

    /// Begins to ask the server who it is, unless that was begun.
    @discardableResult
    private func beginIntroduction() -> Task<HTTPHeaders, any Error> {
        if let introduction { return introduction }
        let begun = Task {
            do {
                return try await options()
            } catch {
                // The next one asks again.
                introduction = nil
                throw error
            }
        }
        introduction = begun
        return begun
    }

    /// What the server says of itself, once the share was seen.
    private func introduce() async throws -> HTTPHeaders {
        while true {
            let introduction = beginIntroduction()
            do {
                return try await withTaskCancellationHandler {
                    try await introduction.value
                } onCancel: {
                    introduction.cancel()
                }
            } catch is CancellationError where !Task.isCancelled {
                // Somebody else who had waited too was.
                continue
            }
        }
    }

    private func options() async throws -> HTTPHeaders {
        // Some servers tell what they can do about what isn't there.
        async let share = status(of: .root)
        let response = try await transport.send(HTTPRequest(method: .OPTIONS, target: location.target(.root)))
        await response.discard()
        guard try await share != nil else { throw missingShare }
        guard response.isSuccess, response.headers.contains(name: "DAV") else {
            throw RemoteError(
                .unavailable,
                "\(identity) isn't a WebDAV share (HTTP status \(response.status)). Check the URL."
            )
        }
        return response.headers
    }

    // MARK: Looking

    /// What is at a path, by PROPFIND.
    public func status(of path: RemotePath) async throws -> RemoteItem? {
        try await properties(of: path, depth: "0")?.first { $0.path == path }?.item
    }

    /// What is in a directory, by PROPFIND, without unfinished files.
    public func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        guard let found = try await properties(of: directory, depth: "1") else { return nil }
        guard found.first(where: { $0.path == directory })?.item.kind == .directory else {
            throw RemoteError.notADirectory(directory)
        }
        return found.filter { $0.path.parent == directory && !Self.isHidden($0.item.name) }.map(\.item)
            .sorted { $0.name < $1.name }
    }

    /// Opens a file.
    ///
    /// Apache may send the beginning of a new version, as long as the one that it has just replaced.
    public func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        // What is there is asked beside it: some servers give a directory's list, or the file above a path.
        async let found = status(of: path)
        async let answered = get(path, range: range)
        guard let item = try await found else { return nil }
        guard item.kind == .file else { throw RemoteError.notAFile(path) }
        guard let response = try await answered else { return RemoteContent([]) }
        switch response.status {
        case 200, 206: return try RemoteContent(response, of: path, range: range, identity)
        case 404, 410: return nil
        case 416: return RemoteContent([])
        default: throw error(response, at: path)
        }
    }

    /// Asks for a file's bytes; `nil` where none are wanted.
    private func get(_ path: RemotePath, range: Range<Int64>?) async throws -> HTTPResponse? {
        var request = HTTPRequest(method: .GET, target: location.target(path))
        if let range {
            guard !range.isEmpty else { return nil }
            request.headers.append(("Range", "bytes=\(max(0, range.lowerBound))-\(range.upperBound - 1)"))
        }
        return try await transport.send(request)
    }

    // MARK: Directories

    /// Makes a directory and those above it, by MKCOL.
    public func createDirectory(at path: RemotePath) async throws {
        try Task.checkCancellation()
        guard path != .root else {
            guard try await status(of: .root) != nil else { throw missingShare }
            return
        }
        if let parent = path.parent, directories.areWithout(parent) { try await createDirectory(at: parent) }
        makers[path, default: 0] += 1
        defer { makers[path] = makers[path].flatMap { $0 > 1 ? $0 - 1 : nil } }
        for isLast in [false, true] {
            let response = try await transport.send(
                HTTPRequest(method: .MKCOL, target: location.target(path, isDirectory: true))
            )
            await response.discard()
            if response.isSuccess { return directories.insert(path, .explored) }
            if response.status == 409, !isLast, let parent = path.parent, parent != .root {
                // What is above it isn't there; no need to look.
                try await createDirectory(at: parent)
                continue
            }
            if response.status == 405 {
                if directories.isCertain(of: path) { return }
                // The other one has made it just now; or it can't either, and the last of us looks why.
                if makers[path, default: 0] > 1 { return directories.insert(path, .presumed) }
            }
            // It may be there, or be our own request of before; or what is above it isn't.
            if let item = try await status(of: path) {
                guard item.kind == .directory else {
                    directories.forget(path)
                    throw RemoteError.notADirectory(path)
                }
                return directories.insert(path, .seen)
            }
            guard !isLast, let parent = path.parent else { throw error(response, at: path) }
            try await createDirectory(at: parent)
        }
    }

    /// Makes a directory unless it was seen already.
    func makeSure(of directory: RemotePath) async throws {
        guard !directories.contains(directory) else { return }
        try await createDirectory(at: directory)
    }

    /// Removes a file, or a directory with all that is in it, by DELETE.
    public func remove(_ path: RemotePath) async throws {
        guard path != .root else { throw RemoteError.isRoot() }
        guard let item = try await status(of: path) else { return }
        directories.forget(path)
        let target = location.target(path, isDirectory: item.kind == .directory)
        let response = try await transport.send(HTTPRequest(method: .DELETE, target: target))
        await response.discard()
        guard !response.isWholeSuccess, ![404, 410].contains(response.status) else { return }
        // A server that says it removed a part may have removed all.
        guard try await status(of: path) != nil else { return }
        throw response.status == 207
            ? RemoteError(.unavailable, "A part of “\(path)” couldn't be removed. Try again.", path: path)
            : error(response, at: path)
    }

    // MARK: Properties

    private static let propertiesBody = """
        <?xml version="1.0" encoding="utf-8"?>
        <propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/><getetag/></prop></propfind>
        """

    private func properties(of path: RemotePath, depth: String) async throws -> [(path: RemotePath, item: RemoteItem)]?
    {
        if !isThere, path != .root { beginIntroduction() }
        let request = HTTPRequest(
            method: .PROPFIND,
            target: location.target(path),
            headers: [("Depth", depth)],
            body: .bytes(Array(Self.propertiesBody.utf8), contentType: "application/xml; charset=utf-8")
        )
        let response = try await transport.send(request)
        switch response.status {
        case 207: break
        case 404, 410:
            try await response.discardingThen { try await self.requireShare(unless: path) }
            return nil
        case 400, 403, 405, 409:
            await response.discard()
            // So some servers answer where a file stands in the middle of the path.
            if let parent = path.parent, parent != .root, try await status(of: parent)?.kind != .directory {
                return nil
            }
            throw error(response, at: path)
        default:
            await response.discard()
            throw error(response, at: path)
        }
        let resources: [Multistatus.Resource]
        do {
            resources = try Multistatus(try await response.bytes(upTo: 1 << 26)).resources
        } catch let cause as Multistatus.Malformed {
            throw RemoteError(
                .unavailable,
                "What \(identity) says of “\(path)” can't be understood: \(cause). Is it a WebDAV share?",
                path: path,
                cause: cause
            )
        }
        let found = resources.compactMap { resource in
            location.path(of: resource.reference).map { ($0, RemoteItem(resource, at: $0)) }
        }
        // An answer about other places must not look like one that says that nothing is there.
        guard found.contains(where: { $0.0 == path }) else {
            throw RemoteError(
                .unavailable,
                "\(identity) answers about other places than “\(path)”. Check the share's URL.",
                path: path
            )
        }
        if path == .root { isThere = true }
        for (found, item) in found where item.kind == .directory {
            directories.insert(found, depth == "1" && found == path ? .explored : .seen)
        }
        return found
    }

    /// Where the first thing isn't there, makes sure that the share is: one that has vanished isn't an empty one.
    private func requireShare(unless path: RemotePath) async throws {
        guard !isThere else { return }
        guard path != .root else { throw missingShare }
        _ = try await introduce()
    }

    var missingShare: RemoteError {
        RemoteError(
            .unavailable,
            "There is no share at \(identity). Check the URL; the share itself has to be there already.",
            path: .root
        )
    }

    // MARK: Errors

    /// What an answer means that isn't a success.
    func error(_ response: HTTPResponse, at path: RemotePath) -> RemoteError {
        switch response.status {
        case 403:
            RemoteError(
                .notAllowed,
                "\(identity) doesn't allow this at “\(path)” (HTTP status 403). Check the user's rights.",
                path: path
            )
        case 404, 410: .notFound(path)
        case 413, 507:
            RemoteError(.noSpace, "\(identity) has no room for “\(path)”. Make room there.", path: path)
        case 400, 414, 431:
            RemoteError(
                .invalidPath,
                "\(identity) can't hold a name like that of “\(path)” (HTTP status \(response.status)).",
                path: path
            )
        case 405, 501:
            RemoteError(
                .unsupported,
                "\(identity) can't do this at “\(path)” (HTTP status \(response.status)). Is it a WebDAV share?",
                path: path
            )
        case 500 where path.lastComponent.map { $0.utf8.count > 200 } ?? false:
            // Servers that write under a longer name first don't say what is wrong with this one.
            RemoteError(
                .invalidPath,
                "\(identity) can't hold a name as long as that of “\(path)” (HTTP status 500).",
                path: path
            )
        default:
            RemoteError(
                .unavailable,
                "\(identity) failed at “\(path)” (HTTP status \(response.status)). Try again later.",
                path: path
            )
        }
    }

    /// Whether a name is that of something unfinished, of ours or of a server's own.
    static func isHidden(_ name: String) -> Bool {
        name.hasPrefix(".storesync-") && name.hasSuffix(".tmp") || name.hasPrefix(".davfs.tmp")
    }
}

extension RemoteItem {
    init(_ resource: Multistatus.Resource, at path: RemotePath) {
        self.init(
            name: path.lastComponent ?? "",
            kind: resource.isCollection ? .directory : .file,
            size: resource.isCollection ? 0 : resource.contentLength ?? 0,
            modified: resource.modified,
            // Apache calls a tag weak for a second; it's the same one.
            tag: resource.isCollection
                ? nil : resource.entityTag.map { RemoteTag($0.hasPrefix("W/") ? String($0.dropFirst(2)) : $0) }
        )
    }
}

extension HTTPResponse {
    /// A MOVE or DELETE that answers 207 names what it couldn't do.
    var isWholeSuccess: Bool { isSuccess && status != 207 }

    /// The whole body, which mustn't be larger.
    func bytes(upTo limit: Int) async throws -> [UInt8] {
        do {
            return Array(buffer: try await body.collect(upTo: limit))
        } catch {
            try Task.checkCancellation()
            throw RemoteError(.unavailable, "An answer broke off, or is far too long. Try again later.", cause: error)
        }
    }

    func discardingThen(_ body: () async throws -> Void) async throws {
        await discard()
        try await body()
    }
}
