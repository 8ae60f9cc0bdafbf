import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

/// A share on a WebDAV server.
///
/// - The guarantees of Apache, lighttpd, nginx and WsgiDAV are known. Any other server is probed once, before the first
///   write; a probe can only disprove a guarantee.
/// - A file is replaced by PUT if that is atomic, else by moving a complete file onto it. A file is created by moving a
///   directory, which on every tested server succeeds for only one client. Conditions are used where they held in races.
/// - Apache reads a file's length before it opens the file: if the file is replaced in between, the read returns the new
///   bytes with the former length. ``/RemoteStorage/RemoteBackend/bytes(at:upTo:)`` then checks the length again.
/// - Unfinished files have a name like `.storesync-….tmp`, in the directory of the final file, and aren't listed.
/// - Requests are retried when an answer is lost or the server is too busy. If a request may have been carried out already,
///   the backend checks the result instead of guessing.
/// - Redirects are followed on the same server only. Basic and Digest are answered when the server asks, and credentials are
///   sent to no other machine without TLS.
///
/// The share must exist: a missing share is an error (``/RemoteStorage/RemoteError/Code/unavailable``), and is never created. nginx doesn't
/// list names that begin with a dot, although they can be written and read there.
public actor WebDAVBackend: RemoteBackend {
    /// The share, as `webdavs://host:port/path`.
    public nonisolated let identity: String
    let location: ShareLocation
    let settings: HTTPSettings
    let transport: any HTTPSending
    /// The kind of the server, once it is known.
    private var profile: ServerProfile?
    /// Probes an unknown server.
    private let probing = SharedTask<ServerProfile>(keepsValue: false)
    /// Asks the server what it is, concurrently with the first request.
    private let introduction = SharedTask<HTTPHeaders>(keepsValue: true)
    /// Checks that the share still exists.
    private let shareCheck = SharedTask<Void>(keepsValue: false)
    /// The time since an answer last proved that the share exists; `nil` before the first proof.
    private var timeSinceProof: (@Sendable () -> Duration)?
    /// The form of a move's destination that the server has accepted; `nil` before the first move.
    var destinationForm: DestinationForm?
    var directories = KnownDirectories()
    /// The number of requests of this client that are creating each directory.
    private var makers: [RemotePath: Int] = [:]

    /// Creates a backend for a share, which connects with its first request.
    public init(_ configuration: WebDAVConfiguration) {
        self.init(configuration, transport: nil)
    }

    init(_ configuration: WebDAVConfiguration, transport: (any HTTPSending)?) {
        var components = URLComponents(url: configuration.url, resolvingAgainstBaseURL: true) ?? URLComponents()
        components.normalize()
        components.scheme = components.scheme == "https" ? "webdavs" : "webdav"
        identity = components.string ?? configuration.url.absoluteString
        location = ShareLocation(configuration.url)
        settings = configuration.settings(name: identity)
        self.transport =
            transport
            ?? HTTPTransport(settings, WebDAVAuthentication(configuration.credentials, name: identity))
    }

    // MARK: The server

    /// Returns the server's guarantees; an unknown server is probed first, which writes to it.
    public func capabilities() async throws -> RemoteCapabilities {
        try await serverProfile().capabilities
    }

    /// Returns the server's guarantees, as far as they are known without writing; `nil` for an unknown server.
    public func knownCapabilities() async throws -> RemoteCapabilities? {
        if profile == nil { profile = try await ServerProfile.recognize(introduce()) }
        return profile?.capabilities
    }

    func serverProfile() async throws -> ServerProfile {
        if let profile { return profile }
        if let recognized = try await ServerProfile.recognize(introduce()) {
            profile = recognized
            return recognized
        }
        return try await probing.value { try await self.probedProfile() }
    }

    private func probedProfile() async throws -> ServerProfile {
        if let profile { return profile }
        let found = ServerProfile.unknown(movesExclusively: try await probe())
        profile = found
        return found
    }

    /// Returns the server's answer to OPTIONS, once the share is known to exist.
    private func introduce() async throws -> HTTPHeaders {
        try await introduction.value { try await self.options() }
    }

    private func options() async throws -> HTTPHeaders {
        // Some servers answer OPTIONS even for a missing path.
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

    // MARK: The share

    /// How long the share is assumed to exist after an answer has proved it.
    private static let patience = Duration.seconds(60)

    private var isProven: Bool { timeSinceProof.map { $0() < Self.patience } ?? false }

    /// Records that an answer has just proved that the share exists, or that it doesn't.
    func noteShare(exists: Bool) {
        timeSinceProof = exists ? settings.clock.stopwatch() : nil
    }

    /// Starts to ask the server what it is before the share is needed, so that the first requests wait for each other less.
    func anticipateShare() {
        if timeSinceProof == nil { introduction.start { try await self.options() } }
    }

    /// Checks that the share exists, because the contents of a vanished share must not look like missing files.
    func requireShare() async throws {
        if !isProven { _ = try await introduce() }
        // The server may have answered that long ago.
        if !isProven { try await shareCheck.value { _ = try await self.status(of: .root) } }
    }

    var missingShare: RemoteError {
        RemoteError(
            .unavailable,
            "There is no share at \(identity). Check the URL, or create the share on the server.",
            path: .root
        )
    }

    // MARK: Reading

    /// Returns the item at a path, by PROPFIND.
    public func status(of path: RemotePath) async throws -> RemoteItem? {
        try await properties(of: path, depth: "0")?.first { $0.path == path }?.item
    }

    /// Returns the items in a directory, by PROPFIND, without unfinished files.
    public func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        guard let found = try await properties(of: directory, depth: "1") else { return nil }
        guard found.first(where: { $0.path == directory })?.item.kind == .directory else {
            throw RemoteError.notADirectory(directory)
        }
        // Some servers repeat an answer.
        var listed: Set<RemotePath> = []
        return found.filter {
            $0.path.parent == directory && !Self.isHidden($0.item.name) && listed.insert($0.path).inserted
        }.map(\.item).sorted { $0.name < $1.name }
    }

    /// Opens a file.
    ///
    /// If the file is being replaced, Apache may send the beginning of the new version, with the length of the former one.
    public func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        let range = range?.clamped(to: 0..<Int64.max)
        // The status is requested too: some servers answer GET with a directory's list, or with the file above a path.
        async let found = status(of: path)
        async let answered = get(path, range: range)
        guard let item = try await found else { return nil }
        guard item.kind == .file else { throw RemoteError.notAFile(path) }
        guard let response = try await answered else { return RemoteContent([]) }
        switch response.status {
        case 200, 206:
            // A server that doesn't report sizes reports none here, either.
            let size = item.size > 0 ? item.size : nil
            guard !response.isPage(insteadOfFileWith: size) else { throw failure(response, at: path) }
            return try RemoteContent(response, of: path, range: range, size: size, identity)
        case 404, 410: return nil
        // A range after the file's end.
        case 416 where (range?.lowerBound ?? 0) >= item.size: return RemoteContent([])
        default: throw failure(response, at: path)
        }
    }

    /// Requests a file's bytes; returns `nil` for an empty range.
    private func get(_ path: RemotePath, range: Range<Int64>?) async throws -> HTTPResponse? {
        var request = HTTPRequest(method: .GET, target: location.target(path))
        if let range {
            guard !range.isEmpty else { return nil }
            request.headers.append(("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)"))
        }
        return try await transport.send(request)
    }

    // MARK: Directories

    /// Creates a directory and its missing parents, by MKCOL.
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
            if response.status == 201 { return directories.insert(path, .explored) }
            if response.status == 409, !isLast, let parent = path.parent, parent != .root {
                // Status 409 means that the parent doesn't exist, so no check is needed.
                try await createDirectory(at: parent)
                continue
            }
            if response.status == 405 {
                if directories.isCertain(of: path) { return }
                // A concurrent request has probably created it. If not, the last of these requests finds out why.
                if makers[path, default: 0] > 1 { return directories.insert(path, .presumed) }
            }
            // The directory may exist, perhaps by an earlier attempt of this request, or its parent may be missing.
            if let item = try await status(of: path) {
                guard item.kind == .directory else {
                    directories.forget(path)
                    throw RemoteError.notADirectory(path)
                }
                return directories.insert(path, .seen)
            }
            guard !isLast, let parent = path.parent else { throw failure(response, at: path) }
            try await createDirectory(at: parent)
        }
    }

    /// Creates a directory unless this client has seen it already.
    func makeSure(of directory: RemotePath) async throws {
        guard !directories.contains(directory) else { return }
        try await createDirectory(at: directory)
    }

    /// Removes a file, or a directory with its contents, by DELETE.
    public func remove(_ path: RemotePath) async throws {
        guard path != .root else { throw RemoteError.rootIsFixed() }
        guard let item = try await status(of: path) else { return }
        directories.forget(path)
        let target = location.target(path, isDirectory: item.kind == .directory)
        let response = try await transport.send(HTTPRequest(method: .DELETE, target: target))
        await response.discard()
        guard response.status != 204 else { return }
        // Any other answer may be a gateway's. A server that reports a partial removal may have removed everything.
        guard try await status(of: path) != nil else { return }
        throw response.status == 207
            ? RemoteError(.unavailable, "A part of “\(path)” couldn't be removed. Try again.", path: path)
            : failure(response, at: path)
    }

    /// Whether a name belongs to an unfinished file, of this package or of a server.
    static func isHidden(_ name: String) -> Bool {
        TemporaryName.isOne(name) || name.hasPrefix(".davfs.tmp")
    }
}

extension HTTPResponse {
    /// Whether a request succeeded completely: an answer of 207 lists failures, and one of 200 may be a login page's.
    var isCompleteSuccess: Bool { [201, 204].contains(status) }
}
