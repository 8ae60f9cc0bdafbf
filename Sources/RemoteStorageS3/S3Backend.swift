import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

/// A bucket, or the keys below a prefix of it, on a server with Amazon's S3 API.
///
/// - Conditions are used on servers that are known to enforce them in a race: Amazon and SeaweedFS. Any other server is
///   probed once, before the first write.
/// - A file becomes visible when it is complete, also if it is sent in parts. A request's body is in memory and signed, and
///   the server verifies its checksums. Of a large file, only a few parts are in memory, also while it is read.
/// - `X-Amz-Checksum-Sha256` is sent in addition to `Content-MD5`, unless the probe finds that the server refuses it, as
///   Cloudflare R2 does.
/// - A read returns one version. If a large file is replaced while it is read, the read fails
///   (``/RemoteStorage/RemoteError/Code/unavailable``).
/// - A directory is a key without bytes that ends in a slash, or a prefix of other keys. It gets a key of its own when it is
///   created, and before its content is removed. A move isn't atomic: it copies each file, then removes the originals.
/// - Requests are sent again if a response is lost or the server is too busy. Each file carries the identifier of the write
///   that created it. A retry that is refused because the first attempt succeeded is recognized by it.
/// - Redirects are reported, never followed. A success counts only if it is an S3 server's, not a login page's.
/// - Nothing is sent to another machine without TLS unless that is allowed.
///
/// The bucket must exist: a missing bucket is an error (``/RemoteStorage/RemoteError/Code/unavailable``), and is never created. Names with
/// control characters or backslashes are refused.
public actor S3Backend: RemoteBackend {
    /// The storage's stable name: `s3://bucket/prefix`, with the endpoint if it isn't Amazon's.
    public nonisolated let identity: String
    let configuration: S3Configuration
    let location: S3Location
    let transport: any HTTPSending
    /// Probes an unknown server.
    private let probing = SharedTask<S3ServerProfile>(keepsValue: false)
    /// The server's profile, once it is known.
    private var profile: S3ServerProfile?
    /// Whether the server has answered, so that a known server would have been recognized: a login page doesn't count.
    private var hasAnswered = false
    /// The paths that needn't be requested again.
    var seen = SeenDirectories()
    /// Multipart uploads that were cut off and can be resumed.
    var unfinishedUploads: [RemotePath: PartedUpload] = [:]
    /// Multipart uploads in progress, which mustn't be aborted as abandoned.
    var liveUploads: Set<String> = []
    /// Whether this backend has already looked for abandoned uploads.
    var hasSwept = false

    /// Creates a backend, which connects to the bucket with the first request.
    public init(_ configuration: S3Configuration) {
        self.init(configuration, transport: configuration.transport)
    }

    init(_ configuration: S3Configuration, transport: any HTTPSending) {
        self.configuration = configuration
        self.transport = transport
        location = S3Location(configuration)
        identity = location.identity
    }

    // MARK: The server

    /// The server's capabilities; probes an unknown server first, which writes to it.
    public func capabilities() async throws -> RemoteCapabilities {
        try await serverProfile().capabilities
    }

    /// The server's capabilities, as far as they are known without writing; `nil` for an unknown server.
    public func knownCapabilities() async throws -> RemoteCapabilities? {
        if !hasAnswered { _ = try await status(of: .root) }
        return profile?.capabilities
    }

    func serverProfile() async throws -> S3ServerProfile {
        if !hasAnswered { _ = try await status(of: .root) }
        if let profile { return profile }
        return try await probing.value { try await self.probedProfile() }
    }

    private func probedProfile() async throws -> S3ServerProfile {
        if let profile { return profile }
        let found = try await probe()
        profile = found
        return found
    }

    // MARK: Requests

    /// The maximum length of a response that is read whole: a page of a list with the longest keys.
    static let longestReply = CheckedXML.maximumByteCount

    /// Sends a request for a key, or for the bucket.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - key: The key; `nil` for the bucket.
    ///   - query: The parameters.
    ///   - headers: Headers in addition to those of every request.
    ///   - payload: The body.
    ///   - replyLimit: The maximum length of a response that is read at once, in bytes; `nil` to stream the response.
    /// - Returns: The response, whatever its status.
    /// - Throws: ``RemoteError``; `CancellationError`.
    func perform(
        _ method: HTTPMethod,
        _ key: String? = nil,
        query: [String: String] = [:],
        headers: [(String, String)] = [],
        payload: S3Payload? = nil,
        replyLimit: Int? = S3Backend.longestReply
    ) async throws -> HTTPResponse {
        let response = try await transport.send(
            HTTPRequest(
                method: method,
                target: location.target(key, query),
                // Other bodies have no checksum: with the list of a file's parts, it would stand for the whole file.
                headers: headers + ((method == .PUT ? payload?.fileHeaders : payload?.headers) ?? []),
                body: payload.map { .bytes($0.bytes, contentType: "application/octet-stream") },
                replyLimit: replyLimit
            )
        )
        if response.isSuccess {
            let isAmazon = location.origin.contains(".amazonaws.com")
            profile = profile ?? S3ServerProfile.recognize(response.headers, isAmazon: isAmazon)
        }
        return response
    }

    /// Throws the error of a response that isn't a success.
    func check(_ response: HTTPResponse, at path: RemotePath) throws {
        if let failure = S3Failure(response) { throw failure.error(at: path, in: location) }
    }

    /// Reads a response's XML.
    func parsed<Document>(
        _ response: HTTPResponse,
        at path: RemotePath,
        _ parse: ([UInt8]) throws(CheckedXML.Malformed) -> Document
    ) throws -> Document {
        try check(response, at: path)
        do {
            let document = try parse(response.bytes)
            hasAnswered = true
            return document
        } catch {
            throw RemoteError(
                .unavailable,
                """
                The answer of \(identity) about “\(path)” isn't valid: \(error). Is it an S3 server? A network's login page \
                may be in the way: sign in, then try again.
                """,
                path: path,
                cause: error
            )
        }
    }

    /// Throws unless a response has the tag of the file that a request has written or asked for.
    func checkStored(_ response: HTTPResponse, at path: RemotePath) throws { _ = try tag(of: response, at: path) }

    /// Returns the tag of the file that a request has written or asked for; throws the failure that the response reports.
    ///
    /// A success without a tag is a failure, too: every S3 server tags what it stores.
    func tag(of response: HTTPResponse, at path: RemotePath) throws -> String {
        try check(response, at: path)
        // The answers to copies and completions have it in their XML, whose root element servers name differently. Another
        // body is a login page's, whose header may have a tag as well.
        let isBlank = response.bytes.allSatisfy { [0x20, 0x0A, 0x0D].contains($0) }
        guard
            let tag = isBlank
                ? response.headers.first(name: "ETag") : (try? S3Element(response.bytes, named: nil))?["ETag"]
        else { throw foreignAnswer("has no ETag", at: path) }
        hasAnswered = true
        return tag
    }

    /// Throws if a gateway has no server for a request: S3's own 404 has a body that names an error.
    func checkRoute(_ response: HTTPResponse, at path: RemotePath) throws(RemoteError) {
        guard let failure = S3Failure(response), failure.code == nil, [404, 410].contains(failure.status) else {
            return
        }
        throw foreignAnswer("has HTTP status \(failure.status) and no S3 error", at: path)
    }

    /// The error of an answer that no S3 server gives.
    func foreignAnswer(_ flaw: String, at path: RemotePath) -> RemoteError {
        RemoteError(
            .unavailable,
            """
            The answer of \(identity) about “\(path)” \(flaw), so it isn't an S3 server's. Check the URL. A network's login \
            page may be in the way: sign in, then try again.
            """,
            path: path
        )
    }

    // MARK: Directories

    /// Creates a directory, a key without bytes that ends in a slash, and thereby all directories above it.
    public func createDirectory(at path: RemotePath) async throws {
        try Task.checkCancellation()
        // Some servers create a missing bucket with the first key.
        if path == .root || !hasAnswered { _ = try await status(of: .root) }
        guard path != .root else { return }
        try checkName(path)
        seen.doubt(path)
        let unknown = try await unknownDirectories(downTo: path)
        seen.expectDirectory(path)
        try await putDirectory(path)
        seen.insert(unknown)
    }

    /// Returns the directories, from the root down to a directory, that aren't known yet.
    ///
    /// - Throws: ``/RemoteStorage/RemoteError/Code/wrongKind`` if one of them is a file.
    func unknownDirectories(downTo directory: RemotePath) async throws -> [RemotePath] {
        var unknown: [RemotePath] = []
        var next: RemotePath? = directory
        while let path = next, !seen.contains(path) {
            unknown.append(path)
            next = path.parent
        }
        try await unknown.filter { !seen.isNoFile($0) }.concurrentMap { path in
            guard try await self.head(path) == nil else { throw RemoteError.notADirectory(directory) }
        }
        return unknown
    }

    /// Creates a directory's own key, which keeps the directory when it becomes empty.
    ///
    /// This must not run concurrently with a request that writes into the directory: SeaweedFS may lose one of the two.
    func putDirectory(_ path: RemotePath) async throws {
        guard path != .root else { return }
        try checkStored(try await perform(.PUT, location.directoryKey(path), payload: S3Payload([])), at: path)
    }

    /// Whether names can be stored.
    ///
    /// They can't have control characters, which a list in XML can't hold, or a backslash, which some servers treat as a
    /// slash. A path that can't be stored counts as absent.
    static func canKeep(_ names: [String]) -> Bool {
        !names.contains { name in
            name.unicodeScalars.contains {
                $0.value < 32 || $0.value == 127 || $0.value & 0xFFFE == 0xFFFE || $0 == "\\"
            }
        }
    }

    /// Throws for a name that can't be stored.
    func checkName(_ path: RemotePath) throws(RemoteError) {
        guard !Self.canKeep(path.components) else { return }
        throw RemoteError(
            .invalidPath,
            "“\(path)” has a control character or a backslash in its name, which S3 servers can't store. Use another name.",
            path: path
        )
    }
}
