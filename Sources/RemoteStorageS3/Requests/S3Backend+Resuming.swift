import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// Writes that resume an interrupted one, even after its process has died.
extension S3Backend {
    /// Writes a file in parts, and resumes after the complete parts that the server has kept.
    ///
    /// A kept part counts if the server lists it with the tag and the size that `receipts` hold from its acknowledgement.
    /// Parts end where pieces of the content end, and are never split. If `rest` returns an offset within a part, it is
    /// called again with the end of the part before.
    @discardableResult
    public func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        // Without the right to list uploads, this client would leave parts that no device can find again.
        guard try await serverProfile().keepsParts, try await mayListUploads(of: path) else {
            return try await write(rest(0).content, to: path, when: condition)
        }
        let (write, missing) = try await prepareWrite(to: path, when: condition)
        var upload = try await acknowledged(receipts, write)
        var following = try await rest(upload?.byteCount ?? 0)
        while let kept = upload, following.offset < kept.byteCount {
            precondition(following.offset >= 0, "the rest of a file can't begin at a negative offset")
            upload = kept.prefix(of: following.offset)
            // None of the kept parts matches the new content.
            if upload == nil { await abort(kept.identifier, of: location.key(path)) }
            following = try await rest(upload?.byteCount ?? 0)
        }
        precondition(following.offset == upload?.byteCount ?? 0, "the rest of a file can't begin after the kept bytes")
        // Before the content is read: from then on, the caller's records describe the new content, not the former parts.
        await receipts.replace(with: upload?.notedReceipts ?? [])
        let former = upload?.byteCount ?? 0
        let size = partSize(for: following.content.length.map { former + $0 })
        upload?.partSize = size
        var parts = PartReader(following.content, path, size: size, keepsPieces: true)
        parts.number = upload?.parts.count ?? 0
        let next = try await parts.next()
        if upload == nil, next.isLast {
            let headers = try await put(S3Payload(next.bytes, serverProfile().checks), write)
            return written(write, size: parts.count, headers, missing)
        }
        var parted: PartedUpload
        if let upload { parted = upload } else { parted = try await begin(write, partSize: size, receipts) }
        do {
            let headers = try await finish(&parted, next, rest: &parts, after: parted.parts.count)
            return written(write, size: former + parts.count, headers, missing)
        } catch {
            if !parted.isOfUse(after: error) { await abort(parted.identifier, of: location.key(path)) }
            throw error
        }
    }

    /// Whether this client may list the unfinished uploads to a path.
    private func mayListUploads(of path: RemotePath) async throws -> Bool {
        let query = ["uploads": "", "prefix": location.key(path)]
        return try await listed(query, named: "ListMultipartUploadsResult", at: path) != nil
    }

    /// Returns the upload that the receipts name, with the parts that the server lists as acknowledged; `nil` without parts.
    private func acknowledged(_ receipts: any WriteReceipts, _ write: Write) async throws -> PartedUpload? {
        guard let noted = UploadReceipts(await receipts.read()), !liveUploads.contains(noted.identifier) else {
            return nil
        }
        let key = location.key(write.path)
        var listed: [S3Element] = []
        var marker = 0
        // A page without a valid continuation counts as the last one. Parts that aren't listed are sent again.
        while let page = try await self.listed(
            ["uploadId": noted.identifier, "part-number-marker": "\(marker)"],
            key,
            named: "ListPartsResult",
            at: write.path
        ) {
            listed += page.all("Part")
            let last = page.all("Part").compactMap { $0["PartNumber"].flatMap { Int($0) } }.max() ?? 0
            guard page["IsTruncated"] == "true", last > marker, last < PartedUpload.maximumParts else { break }
            marker = last
        }
        var upload = PartedUpload(
            identifier: noted.identifier,
            write: write,
            partSize: partSize(for: nil),
            receipts: receipts
        )
        upload.parts = noted.keptParts(listed, minimumSize: configuration.minimumPartSize)
        guard upload.parts.isEmpty else { return upload }
        await abort(noted.identifier, of: key)
        return nil
    }

    private func listed(
        _ query: [String: String],
        _ key: String? = nil,
        named name: String,
        at path: RemotePath
    ) async throws -> S3Element? {
        let response = try await perform(.GET, key, query: query)
        // The upload may have just ended, or this access key may not list it.
        guard ![403, 404, 405, 501].contains(response.status) else { return nil }
        return try parsed(response, at: path) { bytes throws(CheckedXML.Malformed) in
            try S3Element(bytes, named: name)
        }
    }
}

extension PartedUpload {
    /// The number of bytes of all its parts.
    var byteCount: Int64 { parts.values.reduce(0) { $0 + $1.byteCount } }

    /// Returns the upload with only the parts within the first `count` bytes; `nil` if there are none.
    fileprivate func prefix(of count: Int64) -> PartedUpload? {
        var upload = self
        var end: Int64 = 0
        for number in 1...parts.count {
            end += parts[number]?.byteCount ?? 0
            if end > count { upload.parts[number] = nil }
        }
        return upload.parts.isEmpty ? nil : upload
    }
}
