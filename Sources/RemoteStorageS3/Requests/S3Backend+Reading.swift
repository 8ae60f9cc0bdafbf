import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// A file's beginning is asked for, and says how much follows; that is fetched in parts, several side by side.
extension S3Backend {
    /// Opens a file, of which one version is read: if a large one is replaced meanwhile, reading on fails.
    public func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try Task.checkCancellation()
        guard path != .root else { throw RemoteError.notAFile(path) }
        guard Self.canKeep(path.components) else { return nil }
        // Asked beside it, so that a directory is told from nothing in one round trip.
        async let isDirectory = self.isDirectory(path)
        let wanted = (range ?? 0..<Int64.max).clamped(to: 0..<Int64.max)
        if wanted.isEmpty {
            guard try await head(path) == nil else { return RemoteContent([]) }
            guard try await !isDirectory else { throw RemoteError.notAFile(path) }
            return nil
        }
        // Most files are no longer than this, and come whole.
        let size = Int64(max(configuration.partSize, S3Configuration.smallestPartSize))
        let first = wanted.lowerBound..<wanted.lowerBound + min(size, wanted.upperBound - wanted.lowerBound)
        let response = try await get(path, first, replyLimit: nil)
        switch response.status {
        case 200: return try RemoteContent(response, of: path, range: wanted, identity)
        case 206:
            let content = try RemoteContent(response, of: path, range: first, identity)
            guard let sent = ContentRange(response), sent.range.upperBound < wanted.upperBound else { return content }
            guard let version = FileVersion(response) else {
                // Nothing would tell parts of different versions from each other.
                await response.discard()
                return try await readAtOnce(path, wanted)
            }
            return continued(content, of: path, version, from: sent.range, to: min(version.length, wanted.upperBound))
        case 404, 410:
            guard try await !isDirectory else { throw RemoteError.notAFile(path) }
            return nil
        case 416:
            // There is nothing from there on. Where there would be nothing at all, that is looked at once more.
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
        // Some servers can't count as far as the largest number.
        let last = range.upperBound > 1 << 53 ? "" : "\(range.upperBound - 1)"
        return try await perform(
            .GET,
            location.key(path),
            headers: [("Range", "bytes=\(range.lowerBound)-\(last)")],
            replyLimit: replyLimit
        )
    }

    private func readAtOnce(_ path: RemotePath, _ range: Range<Int64>) async throws -> RemoteContent {
        let response = try await get(path, range, replyLimit: nil)
        try check(response, at: path)
        return try RemoteContent(response, of: path, range: range, identity)
    }

    /// A file's beginning, of which `sent` is on its way, with what follows on it up to `end`.
    private func continued(
        _ first: RemoteContent,
        of path: RemotePath,
        _ version: FileVersion,
        from sent: Range<Int64>,
        to end: Int64
    ) -> RemoteContent {
        guard sent.upperBound < end else { return first }
        let parallelParts = configuration.parallelParts
        return RemoteContent(length: end - sent.lowerBound) {
            let download = PartedDownload(first, rest: sent.upperBound..<end, parallelParts: parallelParts) {
                try await self.part($0, of: path, version)
            }
            return { try await download.next() }
        }
    }

    /// Fetches a part of a file, if that is still the same.
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

/// What tells one version of a file from another one, as far as a server says.
private struct FileVersion: Equatable {
    private let tag: String
    private let modified: String?
    private let identifier: String?
    /// How many bytes it has.
    let length: Int64

    /// Reads what the answer with a part of a file says; `nil` if that isn't enough.
    init?(_ response: HTTPResponse) {
        guard let length = ContentRange(response)?.total,
            let tag = response.headers.first(name: "ETag"), !tag.hasPrefix("W/"), !["", "\"\""].contains(tag)
        else { return nil }
        (self.length, self.tag) = (length, tag)
        modified = response.headers.first(name: "Last-Modified")
        identifier = response.headers.first(name: "x-amz-version-id")
    }
}
