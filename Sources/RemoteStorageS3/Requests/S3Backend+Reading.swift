import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// A file's first part is asked for, and says how much follows; that is fetched in parts, several side by side.
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
        let partSize = Int64(max(configuration.partSize, S3Configuration.smallestPartSize))
        let first = wanted.lowerBound..<wanted.lowerBound + min(partSize, wanted.upperBound - wanted.lowerBound)
        let response = try await get(path, first, replyLimit: nil)
        switch response.status {
        case 200: return try RemoteContent(response, of: path, range: wanted, identity)
        case 206:
            let content = try RemoteContent(response, of: path, range: first, identity)
            return try continued(content, response, partSize: partSize, of: path, to: wanted.upperBound)
        case 404, 410:
            guard try await !isDirectory else { throw RemoteError.notAFile(path) }
            return nil
        case 416: return RemoteContent([])
        default:
            try check(response, at: path)
            return nil
        }
    }

    private func get(_ path: RemotePath, _ range: Range<Int64>, replyLimit: Int?) async throws -> HTTPResponse {
        try await perform(
            .GET,
            location.key(path),
            headers: [("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")],
            replyLimit: replyLimit
        )
    }

    /// A file's first part with what follows on it, if anything does.
    private func continued(
        _ first: RemoteContent,
        _ response: HTTPResponse,
        partSize: Int64,
        of path: RemotePath,
        to end: Int64
    ) throws -> RemoteContent {
        guard let sent = ContentRange(response), let total = sent.total else {
            throw RemoteError(
                .unavailable,
                "\(identity) doesn't say how long “\(path)” is. Is it an S3 server?",
                path: path
            )
        }
        let rest = sent.range.upperBound..<max(sent.range.upperBound, min(total, end))
        guard !rest.isEmpty else { return first }
        guard let tag = response.headers.first(name: "ETag") else {
            throw RemoteError(.unavailable, "\(identity) sent “\(path)” without a tag. Is it an S3 server?", path: path)
        }
        let parallelParts = configuration.parallelParts
        return RemoteContent(length: rest.upperBound - sent.range.lowerBound) {
            let download = PartedDownload(first, rest: rest, partSize: partSize, parallelParts: parallelParts) {
                try await self.part($0, of: path, tag: tag)
            }
            return { try await download.next() }
        }
    }

    /// Fetches a part of a file, if that is still the same.
    private func part(_ range: Range<Int64>, of path: RemotePath, tag: String) async throws -> [UInt8] {
        let response = try await get(path, range, replyLimit: range.count + 1 << 16)
        if ![404, 410, 416].contains(response.status) { try check(response, at: path) }
        guard response.headers.first(name: "ETag") == tag else {
            throw RemoteError(
                .unavailable,
                "“\(path)” was replaced while it was read from \(identity). Try again.",
                path: path
            )
        }
        guard response.status == 206, ContentRange(response)?.range == range, response.bytes.count == range.count else {
            throw RemoteError.anotherPart(of: path, from: identity)
        }
        return response.bytes
    }
}
