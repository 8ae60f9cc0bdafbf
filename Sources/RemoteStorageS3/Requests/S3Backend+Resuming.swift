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
        // Who may not list uploads would leave parts that nobody finds again.
        guard try await serverProfile().keepsParts, let uploads = try await unfinishedUploads(of: path) else {
            return try await write(rest(0).content, to: path, when: condition)
        }
        let (write, missing) = try await prepareWrite(to: path, when: condition)
        var upload = try await newest(of: uploads, write)
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
        let size = partSize(for: following.content.length.map { former + $0 })
        upload?.partSize = size
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

    /// The uploads to a path that aren't over, as the server lists them; `nil` if it doesn't.
    private func unfinishedUploads(of path: RemotePath) async throws -> [S3Element]? {
        let key = location.key(path)
        let query = ["uploads": "", "prefix": key]
        let list = try await listed(query, named: "ListMultipartUploadsResult", at: path)
        return list?.all("Upload").filter { $0["Key"] == key }
    }

    /// The upload that was begun last, with the parts that have arrived; `nil` if none has.
    private func newest(of uploads: [S3Element], _ write: Write) async throws -> PartedUpload? {
        let key = location.key(write.path)
        let newest = uploads.max { ($0["Initiated"] ?? "") < ($1["Initiated"] ?? "") }
        guard let identifier = newest?["UploadId"], !identifier.isEmpty, !liveUploads.contains(identifier) else {
            return nil
        }
        var upload = PartedUpload(identifier: identifier, write: write, partSize: partSize(for: nil), isKept: true)
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
        // It may be over just now, or this key may not list it.
        guard ![403, 404, 405, 501].contains(response.status) else { return nil }
        return try parsed(response, at: path) { bytes throws(CheckedXML.Malformed) in
            try S3Element(bytes, named: name)
        }
    }
}

extension PartedUpload {
    /// How many bytes its parts have.
    var byteCount: Int64 { parts.values.reduce(0) { $0 + $1.byteCount } }

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
    mutating func append(_ listed: [S3Element]) {
        let found = listed.compactMap { part in part["PartNumber"].flatMap { Int($0) }.map { (number: $0, part: part) }
        }
        for (number, part) in found.sorted(by: { $0.number < $1.number }) where number == parts.count + 1 {
            // What no server can have is nothing to go on with.
            guard number < Self.mostParts, let part = Part(part), Self.sizes.contains(part.byteCount) else { return }
            parts[number] = part
        }
    }
}
