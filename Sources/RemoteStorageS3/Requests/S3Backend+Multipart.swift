import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP

// Large files are sent in parts, several side by side, and appear when the last of them has arrived.
extension S3Backend {
    /// Sends a file in parts.
    ///
    /// If the server can't be reached any more the upload stays, and a write to the same path goes on with it: parts that
    /// are the same aren't sent again. After any other failure it is aborted.
    ///
    /// - Parameters:
    ///   - first: The first part.
    ///   - rest: Gives the others.
    ///   - partSize: How many bytes each has but the last.
    ///   - write: What is written.
    /// - Returns: The headers that tell of the file.
    /// - Throws: What the content throws; the write's refusal; ``RemoteError``; `CancellationError`.
    func upload(
        _ first: [UInt8],
        rest: inout PartReader,
        partSize: Int,
        _ write: Write
    ) async throws -> HTTPHeaders {
        var upload = try await begin(write, partSize: partSize)
        do {
            return try await finish(&upload, (first, false), rest: &rest)
        } catch {
            if upload.isOfUse(after: error) {
                unfinishedUploads[write.path] = upload
            } else {
                await abort(upload.identifier, location.key(write.path))
            }
            throw error
        }
    }

    /// Sends an upload's parts, after the first `number` that it has, and makes a file of them.
    func finish(
        _ upload: inout PartedUpload,
        _ next: (bytes: [UInt8], isLast: Bool),
        rest: inout PartReader,
        after number: Int = 0
    ) async throws -> HTTPHeaders {
        liveUploads.insert(upload.identifier)
        defer { liveUploads.remove(upload.identifier) }
        async let swept: Void = sweep()
        let isWhole = next.bytes.isEmpty && next.isLast && number > 0
        let count = isWhole ? number : try await send(next, rest: &rest, of: &upload, after: number)
        let headers = try await completeAlone(upload, count: count)
        await swept
        return headers
    }

    private func begin(_ write: Write, partSize: Int) async throws -> PartedUpload {
        if let former = unfinishedUploads.removeValue(forKey: write.path) {
            // Where parts have another size, none of them is the same.
            if former.partSize == partSize { return former.continued(by: write) }
            await abort(former.identifier, location.key(write.path))
        }
        return try await begin(write, partSize: partSize, nil)
    }

    /// Begins an upload, and notes it in `receipts`, if it may be resumed by another process.
    ///
    /// Such an upload is without checksums, which a completion would have to name of former parts, too.
    func begin(_ write: Write, partSize: Int, _ receipts: (any WriteReceipts)?) async throws -> PartedUpload {
        let response = try await perform(
            .POST,
            location.key(write.path),
            query: ["uploads": ""],
            headers: write.mark + (receipts == nil ? [("X-Amz-Checksum-Algorithm", "SHA256")] : [])
        )
        let element = try parsed(response, at: write.path) { bytes throws(CheckedXML.Malformed) in
            try S3Element(bytes, named: "InitiateMultipartUploadResult")
        }
        guard let identifier = element["UploadId"], !identifier.isEmpty else {
            throw RemoteError(
                .unavailable,
                "\(identity) began an upload without naming it. Try again.",
                path: write.path
            )
        }
        let upload = PartedUpload(identifier: identifier, write: write, partSize: partSize, receipts: receipts)
        await receipts?.replace(with: upload.notedReceipts)
        return upload
    }

    /// Sends parts, and returns how many there are with those before.
    private func send(
        _ next: (bytes: [UInt8], isLast: Bool),
        rest: inout PartReader,
        of upload: inout PartedUpload,
        after former: Int
    ) async throws -> Int {
        // As much memory as the configuration says, also where a huge file needs larger parts.
        let memory = max(configuration.partSize, configuration.minimumPartSize) * configuration.parallelParts
        let parallel = max(1, min(configuration.parallelParts, memory / upload.partSize))
        let path = upload.write.path
        let profile = try await serverProfile()
        let checks = upload.isKept ? profile.checksOfKeptParts : profile.checks
        return try await withThrowingTaskGroup(of: (Int, PartedUpload.Part).self) { group in
            do {
                var ((bytes, isLast), number, running) = (next, former + 1, 0)
                while true {
                    try checkCount(number, path)
                    if running == parallel, let (done, part) = try await group.next() {
                        upload.parts[done] = part
                        running -= 1
                    }
                    group.addTask { [upload, bytes, number] in
                        // Off the actor: the digests take their time.
                        let payload = S3Payload(bytes, checks)
                        if let part = upload.parts[number], part.sha256 == payload.sha256 { return (number, part) }
                        let part = try await self.send(payload, number, of: upload)
                        await upload.receipts?.append(PartedUpload.receipt(of: part, number))
                        return (number, part)
                    }
                    running += 1
                    guard !isLast else { break }
                    (bytes, isLast) = try await rest.next()
                    number += 1
                }
                while let (done, part) = try await group.next() { upload.parts[done] = part }
                return number
            } catch {
                // What arrives all the same needn't be sent again, if somebody goes on with this upload.
                if !upload.isOfUse(after: error) { group.cancelAll() }
                while let result = await group.nextResult() {
                    if case .success((let done, let part)) = result { upload.parts[done] = part }
                }
                throw error
            }
        }
    }

    private func checkCount(_ number: Int, _ path: RemotePath) throws(RemoteError) {
        guard number > PartedUpload.mostParts else { return }
        throw RemoteError(
            .unsupported,
            "“\(path)” has more than \(PartedUpload.mostParts) parts. Say how long it is beforehand, so that they grow.",
            path: path
        )
    }

    private func send(_ payload: S3Payload, _ number: Int, of upload: PartedUpload) async throws -> PartedUpload.Part {
        let path = upload.write.path
        let response = try await perform(
            .PUT,
            location.key(path),
            query: ["partNumber": "\(number)", "uploadId": upload.identifier],
            payload: payload
        )
        try check(response, at: path)
        guard let tag = response.headers.first(name: "ETag") else {
            throw RemoteError(
                .unavailable,
                "\(identity) took a part of “\(path)” without a tag. Try again.",
                path: path
            )
        }
        return PartedUpload.Part(tag: tag, payload, isListedWithChecksum: !upload.isKept)
    }

    /// Completes an upload under a condition while nobody else does so at its path.
    ///
    /// Each server tried that keeps conditions keeps them in a race of PUTs, and SeaweedFS not of completions. So whoever
    /// completes first puts a *claim*, a hidden key that follows from the file's, and removes it afterwards. One that its
    /// owner left behind is taken away when it is ten minutes old by the server's clock.
    private func completeAlone(_ upload: PartedUpload, count: Int) async throws -> HTTPHeaders {
        guard upload.write.condition != .always, !upload.write.conditionHeader.isEmpty,
            let parent = upload.write.path.parent, let name = upload.write.path.lastComponent
        else { return try await complete(upload, count: count) }
        let digest = hexadecimal(S3Payload(Array(name.utf8)).sha256.prefix(16))
        let claim = Write(
            try parent.appending(".storesync-claim-\(digest).tmp"),
            .ifAbsent,
            [("If-None-Match", "*")]
        )
        try await take(claim, for: upload.write)
        do {
            let existing = try await status(of: upload.write.path)
            let isOurs = try await headers(of: upload.write.path)?.first(name: Write.header) == upload.write.identifier
            if !isOurs { try upload.write.condition.check(existing, at: upload.write.path) }
            let headers = try await complete(upload, count: count)
            await release(claim)
            return headers
        } catch {
            await release(claim)
            throw error
        }
    }

    private func take(_ claim: Write, for write: Write) async throws {
        var delay = configuration.retries.delay
        for _ in 0..<12 {
            do {
                _ = try await put(S3Payload([]), claim)
                return
            } catch let error as RemoteError where error.code == .alreadyExists {
                if let headers = try await headers(of: claim.path),
                    let now = headers.first(name: "Date").flatMap({ HTTPDate($0)?.date }),
                    let taken = headers.first(name: "Last-Modified").flatMap({ HTTPDate($0)?.date }),
                    now.timeIntervalSince(taken) > 600
                {
                    await release(claim)
                }
                try await configuration.clock.sleep(for: min(delay, configuration.retries.longestDelay))
                delay *= 2
            }
        }
        throw RemoteError(.unavailable, "Others are just writing “\(write.path)”. Try again.", path: write.path)
    }

    private func release(_ claim: Write) async {
        let request = HTTPRequest(
            method: .DELETE,
            target: location.target(location.key(claim.path)),
            replyLimit: 1 << 16
        )
        // A task of its own isn't cancelled with this one, which waits for it.
        await Task { [transport] in _ = try? await transport.sendOnceIfPossible(request) }.value
    }

    private func complete(_ upload: PartedUpload, count: Int) async throws -> HTTPHeaders {
        try Task.checkCancellation()
        let write = upload.write
        let response = try await perform(
            .POST,
            location.key(write.path),
            query: ["uploadId": upload.identifier],
            headers: write.conditionHeader,
            payload: S3Payload(upload.completion(count))
        )
        // Parts that can't be put together are of no use to who would go on with them.
        if upload.isKept, response.status == 400 { await abort(upload.identifier, location.key(write.path)) }
        var headers = try await outcome(of: response, write)
        // By whatever name: servers differ.
        if !headers.contains(name: "ETag"), let tag = try? S3Element(response.bytes, named: nil)["ETag"] {
            headers.add(name: "ETag", value: tag)
        }
        return headers
    }

    // MARK: Aborting

    /// Ends an upload whose parts nobody needs, also when the task is cancelled; if that fails, it is abandoned.
    func abort(_ identifier: String, _ key: String) async {
        let request = HTTPRequest(
            method: .DELETE,
            target: location.target(key, ["uploadId": identifier]),
            replyLimit: 1 << 16
        )
        // A task of its own isn't cancelled with this one, which waits for it.
        await Task { [transport] in _ = try? await transport.sendOnceIfPossible(request) }.value
    }

    /// Aborts uploads that were abandoned, whose parts take room and are listed nowhere; once, and as far as possible.
    private func sweep() async {
        guard !hasSwept else { return }
        hasSwept = true
        let query = ["uploads": "", "prefix": location.prefix]
        guard let response = try? await perform(.GET, query: query), response.isSuccess,
            let list = try? S3Element(response.bytes, named: "ListMultipartUploadsResult")
        else { return }
        let limit = Date(timeIntervalSinceNow: -Double(configuration.abandonedAfter.components.seconds))
        for upload in list.all("Upload") {
            guard let key = upload["Key"], key.utf8.starts(with: location.prefix.utf8),
                let identifier = upload["UploadId"], !liveUploads.contains(identifier),
                !unfinishedUploads.values.contains(where: { $0.identifier == identifier }),
                let begun = upload["Initiated"].flatMap({ ObjectList.date($0) }), begun < limit
            else { continue }
            await abort(identifier, key)
        }
    }
}
