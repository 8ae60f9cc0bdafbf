import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// The first request fetches a file's beginning and learns its length. The rest is fetched in concurrent parts.
extension S3Backend {
    /// Opens one version of a file: if a large file is replaced meanwhile, reading it fails.
    public func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try Task.checkCancellation()
        guard path != .root else { throw RemoteError.notAFile(path) }
        guard Self.canKeep(path.components) else { return nil }
        // Requested at the same time, so that one round trip tells a directory from a missing file.
        async let isDirectory = self.isDirectory(path)
        let wanted = (range ?? 0..<Int64.max).clamped(to: 0..<Int64.max)
        if wanted.isEmpty {
            guard try await head(path) == nil else { return RemoteContent([]) }
            guard try await !isDirectory else { throw RemoteError.notAFile(path) }
            return nil
        }
        // Most files aren't longer than this, and one request fetches them whole.
        let size = Int64(max(configuration.partSize, S3Configuration.smallestPartSize))
        let first = wanted.lowerBound..<wanted.lowerBound + min(size, wanted.upperBound - wanted.lowerBound)
        let response = try await get(path, first, replyLimit: nil)
        switch response.status {
        case 200:
            // Of the whole file, so the server doesn't know ranges, or isn't an S3 server.
            try checkFile(response, at: path)
            return try RemoteContent(response, of: path, range: wanted, identity)
        case 206:
            let content = try RemoteContent(response, of: path, range: first, mayBeShort: true, identity)
            guard let sent = ContentRange(response) else { return content }
            guard let version = FileVersion(response) else {
                guard sent.range.upperBound < wanted.upperBound else { return content }
                // Parts of different versions couldn't be told apart.
                await response.discard()
                return try await readAtOnce(path, wanted)
            }
            return continued(content, of: path, version, from: sent.range, to: min(version.length, wanted.upperBound))
        case 404, 410:
            guard try await !isDirectory else { throw RemoteError.notAFile(path) }
            return nil
        case 416:
            // The range begins at or after the file's end. If it begins at 0, HEAD must confirm that the file is empty.
            if wanted.lowerBound == 0, let file = try await head(path), file.size != 0 {
                throw RemoteError.anotherPart(of: path, from: identity)
            }
            return RemoteContent([])
        default:
            try check(response, at: path)
            return nil
        }
    }

    private func get(_ path: RemotePath, _ range: Range<Int64>, replyLimit: Int?) async throws -> HTTPResponse {
        // Some servers can't parse an offset as large as `Int64.max`.
        let last = range.upperBound > 1 << 53 ? "" : "\(range.upperBound - 1)"
        return try await perform(
            .GET,
            location.key(path),
            headers: [("Range", "bytes=\(range.lowerBound)-\(last)")],
            replyLimit: replyLimit
        )
    }

    /// Throws unless a response can be a whole file; S3 servers, which know ranges, send files as parts.
    private func checkFile(_ response: HTTPResponse, at path: RemotePath) throws {
        try checkStored(response, at: path)
        guard !response.isPage(insteadOfFileWith: nil) else { throw foreignAnswer("is a web page", at: path) }
        // The end of a connection that broke off would look like the file's end.
        guard response.headers.contentLength != nil || response.headers.contains(name: "Transfer-Encoding") else {
            throw foreignAnswer("has no length", at: path)
        }
    }

    private func readAtOnce(_ path: RemotePath, _ range: Range<Int64>) async throws -> RemoteContent {
        let response = try await get(path, range, replyLimit: nil)
        try check(response, at: path)
        if response.status == 200 { try checkFile(response, at: path) }
        return try RemoteContent(response, of: path, range: range, identity)
    }

    /// Returns content that begins with `first`, the response for `sent`, and continues up to `end`.
    private func continued(
        _ first: RemoteContent,
        of path: RemotePath,
        _ version: FileVersion,
        from sent: Range<Int64>,
        to end: Int64
    ) -> RemoteContent {
        let parallelParts = configuration.parallelParts
        return RemoteContent(onceFrom: path, length: end - sent.lowerBound) {
            let download = PartedDownload(first, rest: sent.upperBound..<end, parallelParts: parallelParts) {
                try await self.part($0, of: path, version)
            }
            return { try await download.next() }
        }
    }

    /// Fetches a part of a file, if the file still has the same version.
    private func part(_ range: Range<Int64>, of path: RemotePath, _ version: FileVersion) async throws -> [UInt8] {
        let response = try await get(path, range, replyLimit: range.count + 1 << 16)
        if ![404, 410, 416].contains(response.status) { try check(response, at: path) }
        guard response.status == 200 || FileVersion(response) == version else {
            throw RemoteError(
                .unavailable,
                "“\(path)” was replaced or removed while it was read from \(identity). Try again.",
                path: path
            )
        }
        guard response.status == 206, ContentRange(response)?.range == range, response.bytes.count == range.count else {
            throw RemoteError.anotherPart(of: path, from: identity)
        }
        return response.bytes
    }
}

/// A file's version, as far as the server identifies it.
private struct FileVersion: Equatable {
    private let tag: String
    private let modified: String?
    private let identifier: String?
    /// The file's number of bytes.
    let length: Int64

    /// Reads the version from the response with a part of a file; `nil` if the response doesn't identify it.
    init?(_ response: HTTPResponse) {
        guard let length = ContentRange(response)?.total,
            let tag = response.headers.first(name: "ETag"), !tag.hasPrefix("W/"), !["", "\"\""].contains(tag)
        else { return nil }
        (self.length, self.tag) = (length, tag)
        modified = response.headers.first(name: "Last-Modified")
        identifier = response.headers.first(name: "x-amz-version-id")
    }
}
