import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

/// A bucket, or what is below a prefix of it, on a server that speaks Amazon's S3.
///
/// - Conditions are sent where they are known to hold in a race: at Amazon and SeaweedFS. Any other server is tried, once and
///   before the first write, with what a probe can disprove.
/// - A file appears with its last byte, also one that is sent in parts. What is sent is in memory, signed, and compared by
///   the server by its checksums; of a large file that is a part or a few of them, and so it is where one is read.
/// - What is read is of one version. A large file that is replaced while it's read is an error
///   (``/RemoteStorage/RemoteError/Code/unavailable``).
/// - A directory is a key without bytes that ends in a slash, or what other keys begin with; it gets a key of its own when
///   it is made, and before what is in it goes. It isn't moved at once: each file is copied, then the originals are removed.
/// - Requests are sent again when an answer is lost or the server is too busy. Each file carries the name of the write that
///   made it, so that one that was refused because it had been carried out already is known.
/// - Redirects are told, never followed. Nothing goes to another machine without TLS unless that is allowed.
///
/// The bucket must be there: an absent one is an error (``/RemoteStorage/RemoteError/Code/unavailable``), never created. Names with control
/// characters or backslashes are refused.
public actor S3Backend: RemoteBackend {
    /// The place, as `s3://bucket/prefix`, with the endpoint where it isn't Amazon's.
    public nonisolated let identity: String
    let configuration: S3Configuration
    let location: S3Location
    let transport: any HTTPSending
    /// What the server is, once that is known.
    private var profile: S3ServerProfile?
    /// Whether the server has answered, so that it would be known if it could be.
    private var hasAnswered = false
    /// What needn't be looked for.
    var seen = SeenDirectories()
    /// Uploads in parts that were cut off, to go on with.
    var unfinishedUploads: [RemotePath: PartedUpload] = [:]
    /// Uploads in parts that aren't over, whose parts must not be taken for abandoned ones.
    var liveUploads: Set<String> = []
    /// Whether uploads that were abandoned have been looked for.
    var hasSwept = false

    /// Takes a bucket, to which it connects with the first request.
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

    /// What the server can be trusted with; an unknown one is tried first, which writes to it.
    public func capabilities() async throws -> RemoteCapabilities {
        try await serverProfile().capabilities
    }

    /// What the server can be trusted with, as far as that is known without writing; `nil` for an unknown one.
    public func knownCapabilities() async throws -> RemoteCapabilities? {
        if !hasAnswered { _ = try await status(of: .root) }
        return profile?.capabilities
    }

    func serverProfile() async throws -> S3ServerProfile {
        if !hasAnswered { _ = try await status(of: .root) }
        if let profile { return profile }
        let found = try await probe()
        // Others may have come here meanwhile: what any of them could disprove is disproved.
        let former = profile ?? found
        let common = S3ServerProfile(
            createsExclusively: found.createsExclusively && former.createsExclusively,
            keepsVersions: found.keepsVersions && former.keepsVersions
        )
        profile = common
        return common
    }

    // MARK: Requests

    /// How long an answer may be that is read whole: a page of a list with the longest keys.
    static let longestReply = 16 << 20

    /// Sends a request about a key, or about the bucket.
    ///
    /// - Parameters:
    ///   - method: What to do.
    ///   - key: To what; `nil` for the bucket.
    ///   - query: The parameters.
    ///   - headers: What it has besides what every request has.
    ///   - payload: What is sent.
    ///   - replyLimit: How long an answer may be that is read at once, in bytes; `nil` to leave it on its way.
    /// - Returns: The answer, whatever its status.
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
                // What else is sent has no checksum: beside the list of a file's parts it would be the whole file's.
                headers: headers + ((method == .PUT ? payload?.fileHeaders : payload?.headers) ?? []),
                body: payload.map { .bytes($0.bytes, contentType: "application/octet-stream") },
                replyLimit: replyLimit
            )
        )
        if response.isSuccess {
            let isAmazon = location.origin.contains(".amazonaws.com")
            profile = profile ?? S3ServerProfile.recognise(response.headers, isAmazon: isAmazon)
            hasAnswered = true
        }
        return response
    }

    /// Throws what an answer means that isn't a success.
    func check(_ response: HTTPResponse, at path: RemotePath) throws {
        if let failure = S3Failure(response) { throw failure.error(at: path, in: location) }
    }

    /// Reads an answer's XML.
    func parsed<Document>(
        _ response: HTTPResponse,
        at path: RemotePath,
        _ parse: ([UInt8]) throws(CheckedXML.Malformed) -> Document
    ) throws -> Document {
        try check(response, at: path)
        do {
            return try parse(response.bytes)
        } catch {
            throw RemoteError(
                .unavailable,
                "What \(identity) says of “\(path)” can't be understood: \(error). Is it an S3 server?",
                path: path,
                cause: error
            )
        }
    }

    // MARK: Directories

    /// Makes a directory, a key without bytes that ends in a slash; those above it are there with it.
    public func createDirectory(at path: RemotePath) async throws {
        try Task.checkCancellation()
        // Some servers make a bucket that isn't there with the first key.
        if path == .root || !hasAnswered { _ = try await status(of: .root) }
        guard path != .root else { return }
        try checkName(path)
        seen.doubt(path)
        let unknown = try await unknownDirectories(downTo: path)
        seen.expectDirectory(path)
        try await putDirectory(path)
        seen.insert(unknown)
    }

    /// Which of the directories down to one weren't seen yet.
    ///
    /// - Throws: ``/RemoteStorage/RemoteError/Code/wrongKind`` if one of them is a file.
    func unknownDirectories(downTo directory: RemotePath) async throws -> [RemotePath] {
        var unknown: [RemotePath] = []
        var next: RemotePath? = directory
        while let path = next, !seen.contains(path) {
            unknown.append(path)
            next = path.parent
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for path in unknown where !seen.isNoFile(path) {
                group.addTask {
                    guard try await self.head(path) == nil else { throw RemoteError.notADirectory(directory) }
                }
            }
            try await group.waitForAll()
        }
        return unknown
    }

    /// Puts a directory's own key, which keeps it when nothing is in it any more.
    ///
    /// Not beside a request that puts something into it: SeaweedFS may lose one of the two.
    func putDirectory(_ path: RemotePath) async throws {
        guard path != .root else { return }
        try check(try await perform(.PUT, location.directoryKey(path), payload: S3Payload([])), at: path)
    }

    /// Whether names can be kept: not with control characters, which a list in XML can't hold, nor with a backslash, which
    /// some servers take for a slash.
    ///
    /// What can't be kept isn't there.
    static func canKeep(_ names: [String]) -> Bool {
        !names.contains { name in
            name.unicodeScalars.contains {
                $0.value < 32 || $0.value == 127 || $0.value & 0xFFFE == 0xFFFE || $0 == "\\"
            }
        }
    }

    /// Throws for a name that can't be kept.
    func checkName(_ path: RemotePath) throws(RemoteError) {
        guard !Self.canKeep(path.components) else { return }
        throw RemoteError(
            .invalidPath,
            "“\(path)” has a control character or a backslash in its name, which S3 servers can't keep. Take another name.",
            path: path
        )
    }

    /// Whether a name is that of something that a probe left behind.
    static func isHidden(_ name: String) -> Bool { name.hasPrefix(".storesync-") && name.hasSuffix(".tmp") }
}
