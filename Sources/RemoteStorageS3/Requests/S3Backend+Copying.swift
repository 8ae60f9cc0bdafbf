import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

// Copies on the server: in one request, or in parts if a file is larger than a server copies at once.
extension S3Backend {
    /// Copies a file's or a directory's key.
    ///
    /// - Parameters:
    ///   - source: The file or the directory.
    ///   - destination: The key of the copy.
    ///   - path: The path that errors name.
    /// - Throws: ``RemoteError``; `CancellationError`.
    func copyObject(_ source: ObjectList.Object, to destination: String, _ path: RemotePath) async throws {
        guard source.size <= configuration.largestCopy else {
            return try await copyInParts((source.key, path), to: destination)
        }
        let headers = [("X-Amz-Copy-Source", location.copySource(source.key))]
        // Some servers don't copy a directory's key. It has no bytes, so it is created instead.
        let response =
            source.key.hasSuffix("/")
            ? try await perform(.PUT, destination, payload: S3Payload([]))
            : try await perform(.PUT, destination, headers: headers)
        try checkStored(response, at: path)
    }

    /// A key to copy, and the path that errors name.
    private typealias Source = (key: String, path: RemotePath)

    private func copyInParts(_ source: Source, to destination: String) async throws {
        let replaced = RemoteError(
            .unavailable,
            "“\(source.path)”, or a file in it, was replaced while \(identity) copied it. Try again.",
            path: source.path
        )
        let version = try await version(of: source)
        let parts = partsToCopy(of: version.size)
        guard let first = parts.first else { throw replaced }
        let name = String(decoding: destination.utf8.dropFirst(location.prefix.utf8.count), as: UTF8.self)
        let write = Write(try RemotePath(name), .always, [])
        let identifier = try await start(write, hasChecksums: false)
        liveUploads.insert(identifier)
        defer { liveUploads.remove(identifier) }
        var upload = PartedUpload(identifier: identifier, write: write, partSize: first.count)
        do {
            let numbered = zip(1..., parts).map { (number: $0, range: $1) }
            let copied = try await numbered.concurrentMap(atMost: configuration.parallelParts) { [upload] part in
                try await self.copyPart(part.number, part.range, of: source, upload)
            }
            // Parts of two versions must not become one file.
            guard try await self.version(of: source) == version else { throw replaced }
            for (number, part) in zip(1..., copied) { upload.parts[number] = part }
            _ = try await complete(&upload, count: parts.count)
        } catch {
            await abort(identifier, of: destination)
            throw error
        }
    }

    private func copyPart(
        _ number: Int,
        _ range: Range<Int64>,
        of source: Source,
        _ upload: PartedUpload
    ) async throws -> PartedUpload.Part {
        let response = try await perform(
            .PUT,
            location.key(upload.write.path),
            query: ["partNumber": "\(number)", "uploadId": upload.identifier],
            headers: [
                ("X-Amz-Copy-Source", location.copySource(source.key)),
                ("X-Amz-Copy-Source-Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)"),
            ]
        )
        if S3Failure(response)?.code == "NoSuchUpload" { throw lost(upload.write) }
        return PartedUpload.Part(tag: try tag(of: response, at: source.path), byteCount: Int64(range.count))
    }

    /// The ranges of a file that are copied one by one: of equal size, except for the last one, and at most 10,000.
    func partsToCopy(of count: Int64) -> [Range<Int64>] {
        let size = max(configuration.largestCopy / 10, count / Int64(PartedUpload.maximumParts) + 1)
        return stride(from: 0, to: count, by: Int(size)).map { $0..<$0 + min(size, count - $0) }
    }

    private struct Version: Equatable {
        let tag: String
        let size: Int64
    }

    private func version(of source: Source) async throws -> Version {
        let response = try await perform(.HEAD, source.key)
        return Version(tag: try tag(of: response, at: source.path), size: response.headers.contentLength ?? 0)
    }
}
