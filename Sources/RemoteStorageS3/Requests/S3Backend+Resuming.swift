import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// Writes that go on where one was cut off, also one of a process that died.
extension S3Backend {
    /// Writes a file in parts, of which the server keeps those that arrived whole.
    ///
    /// Parts end where pieces of the content end, and aren't cut later: `rest` is asked again where what it gives doesn't
    /// follow on whole parts.
    @discardableResult
    public func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        guard try await serverProfile().keepsParts else {
            return try await write(rest(0).content, to: path, when: condition)
        }
        let (write, missing) = try await prepareWrite(to: path, when: condition)
        let size = partSize(for: nil)
        var upload = try await keptUpload(of: write, partSize: size)
        var following = try await rest(upload?.byteCount ?? 0)
        while let kept = upload, following.offset < kept.byteCount {
            precondition(following.offset >= 0, "nothing can follow on bytes that aren't kept")
            upload = kept.prefix(of: following.offset)
            // What comes after the parts that count is somebody else's.
            if upload == nil { await abort(kept.identifier, location.key(path)) }
            following = try await rest(upload?.byteCount ?? 0)
        }
        precondition(following.offset == upload?.byteCount ?? 0, "nothing can follow on bytes that aren't kept")
        let former = upload?.byteCount ?? 0
        var parts = PartReader(following.content, path, size: size, keepsPieces: true)
        let next = try await parts.next()
        if upload == nil, next.isLast {
            let headers = try await put(S3Payload(next.bytes, serverProfile().checks), write)
            return written(write, size: parts.count, headers, missing)
        }
        var parted: PartedUpload
        if let upload { parted = upload } else { parted = try await begin(write, partSize: size, isKept: true) }
        do {
            let headers = try await finish(&parted, next, rest: &parts, after: parted.parts.count)
            return written(write, size: former + parts.count, headers, missing)
        } catch {
            if !parted.isOfUse(after: error) { await abort(parted.identifier, location.key(path)) }
            throw error
        }
    }

    /// The upload to a path that was begun last and isn't over, with the parts that have arrived; `nil` if there is none, or
    /// the server doesn't say.
    private func keptUpload(of write: Write, partSize: Int) async throws -> PartedUpload? {
        let key = location.key(write.path)
        let query = ["uploads": "", "prefix": key]
        guard let list = try await listed(query, named: "ListMultipartUploadsResult", at: write.path) else {
            return nil
        }
        let uploads = list.all("Upload").filter { $0["Key"] == key }
        let newest = uploads.max { ($0["Initiated"] ?? "") < ($1["Initiated"] ?? "") }
        guard let identifier = newest?["UploadId"], !identifier.isEmpty, !liveUploads.contains(identifier) else {
            return nil
        }
        var upload = PartedUpload(identifier: identifier, write: write, partSize: partSize, isKept: true)
        var marker = 0
        while true {
            let query = ["uploadId": identifier, "part-number-marker": "\(marker)"]
            guard let page = try await listed(query, key, named: "ListPartsResult", at: write.path) else { break }
            let former = upload.parts.count
            upload.append(page.all("Part"))
            // Those after a gap are sent again.
            guard page["IsTruncated"] == "true", upload.parts.count > former else { break }
            marker = upload.parts.count
        }
        return upload.parts.isEmpty ? nil : upload
    }

    private func listed(
        _ query: [String: String],
        _ key: String? = nil,
        named name: String,
        at path: RemotePath
    ) async throws -> S3Element? {
        let response = try await perform(.GET, key, query: query)
        // It may be over just now.
        guard response.status != 404 else { return nil }
        return try parsed(response, at: path) { bytes throws(CheckedXML.Malformed) in
            try S3Element(bytes, named: name)
        }
    }
}

extension PartedUpload {
    /// How many bytes its parts have.
    fileprivate var byteCount: Int64 { parts.values.reduce(0) { $0 + $1.byteCount } }

    /// The upload with the parts that hold none but the first `count` bytes; `nil` if that is none.
    fileprivate func prefix(of count: Int64) -> PartedUpload? {
        var upload = self
        var end: Int64 = 0
        for number in 1...parts.count {
            end += parts[number]?.byteCount ?? 0
            if end > count { upload.parts[number] = nil }
        }
        return upload.parts.isEmpty ? nil : upload
    }

    /// Adds parts as the server lists them, as far as they follow on those that are there, and can be followed.
    fileprivate mutating func append(_ listed: [S3Element]) {
        let found = listed.compactMap { part in part["PartNumber"].flatMap { Int($0) }.map { (number: $0, part: part) }
        }
        for (number, part) in found.sorted(by: { $0.number < $1.number }) where number == parts.count + 1 {
            guard let part = Part(part), part.byteCount >= S3Configuration.smallestPartSize else { return }
            parts[number] = part
        }
    }
}
