import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// Writes that go on where one was cut off, also one of a process that died.
extension S3Backend {
    /// Writes a file in parts, of which the server keeps those that arrived whole.
    ///
    /// A part is kept if the server lists it now as it acknowledged it to this device: with the tag and the size that
    /// `receipts` hold. Parts end where pieces of the content end, and aren't cut later: `rest` is asked again where what it
    /// gives doesn't follow on whole parts.
    @discardableResult
    public func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        // A client that may not list uploads would leave parts that no device finds again.
        guard try await serverProfile().keepsParts, try await mayListUploads(of: path) else {
            return try await write(rest(0).content, to: path, when: condition)
        }
        let (write, missing) = try await prepareWrite(to: path, when: condition)
        var upload = try await acknowledged(receipts, write)
        var following = try await rest(upload?.byteCount ?? 0)
        while let kept = upload, following.offset < kept.byteCount {
            precondition(following.offset >= 0, "nothing can follow on bytes that aren't kept")
            upload = kept.prefix(of: following.offset)
            // The parts after those that count have another content.
            if upload == nil { await abort(kept.identifier, location.key(path)) }
            following = try await rest(upload?.byteCount ?? 0)
        }
        precondition(following.offset == upload?.byteCount ?? 0, "nothing can follow on bytes that aren't kept")
        // Before the content is read: what the caller remembers of it from then on isn't what former parts hold.
        await receipts.replace(with: upload?.notedReceipts ?? [])
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
        if let upload { parted = upload } else { parted = try await begin(write, partSize: size, receipts) }
        do {
            let headers = try await finish(&parted, next, rest: &parts, after: parted.parts.count)
            return written(write, size: former + parts.count, headers, missing)
        } catch {
            if !parted.isOfUse(after: error) { await abort(parted.identifier, location.key(path)) }
            throw error
        }
    }

    /// Whether this client may list the uploads to a path that aren't over.
    private func mayListUploads(of path: RemotePath) async throws -> Bool {
        let query = ["uploads": "", "prefix": location.key(path)]
        return try await listed(query, named: "ListMultipartUploadsResult", at: path) != nil
    }

    /// The upload of which there are receipts, with the parts that the server lists as it acknowledged them; `nil` if none
    /// is.
    private func acknowledged(_ receipts: any WriteReceipts, _ write: Write) async throws -> PartedUpload? {
        guard let noted = UploadReceipts(await receipts.read()), !liveUploads.contains(noted.identifier) else {
            return nil
        }
        let key = location.key(write.path)
        var listed: [S3Element] = []
        var marker = 0
        // A page that doesn't lead on is the last one: what isn't listed is sent again.
        while let page = try await self.listed(
            ["uploadId": noted.identifier, "part-number-marker": "\(marker)"],
            key,
            named: "ListPartsResult",
            at: write.path
        ) {
            listed += page.all("Part")
            let last = page.all("Part").compactMap { $0["PartNumber"].flatMap { Int($0) } }.max() ?? 0
            guard page["IsTruncated"] == "true", last > marker, last < PartedUpload.mostParts else { break }
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
        await abort(noted.identifier, key)
        return nil
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
}
