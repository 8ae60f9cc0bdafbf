import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

// Large files are sent in parts, several of them concurrently, and become visible when the upload is completed.
extension S3Backend {
    /// Sends a file in parts.
    ///
    /// If the server becomes unreachable, the upload is kept, and the next write to the same path continues it: identical
    /// parts aren't sent again. After any other failure, the upload is aborted.
    ///
    /// - Parameters:
    ///   - first: The first part.
    ///   - rest: The reader of the other parts.
    ///   - partSize: The number of bytes of the first part.
    ///   - write: The write.
    /// - Returns: The headers that describe the file.
    /// - Throws: The content's errors; the write's refusal; ``RemoteError``; `CancellationError`.
    func upload(
        _ first: [UInt8],
        rest: inout PartReader,
        partSize: Int,
        _ write: Write
    ) async throws -> HTTPHeaders {
        var upload = try await continueOrBegin(write, partSize: partSize)
        do {
            return try await finish(&upload, (first, false), rest: &rest)
        } catch {
            if upload.isOfUse(after: error) {
                unfinishedUploads[write.path] = upload
            } else {
                await abort(upload.identifier, of: location.key(write.path))
            }
            throw error
        }
    }

    /// Sends the parts after the first `number`, which the server has, and completes the upload.
    func finish(
        _ upload: inout PartedUpload,
        _ next: (bytes: [UInt8], isLast: Bool),
        rest: inout PartReader,
        after number: Int = 0
    ) async throws -> HTTPHeaders {
        liveUploads.insert(upload.identifier)
        defer { liveUploads.remove(upload.identifier) }
        async let swept: Void = sweep()
        let hasAllParts = next.bytes.isEmpty && next.isLast && number > 0
        let count = hasAllParts ? number : try await sendParts(next, rest: &rest, of: &upload, after: number)
        let headers = try await completeAlone(&upload, count: count)
        await swept
        return headers
    }

    /// Continues the upload that an earlier write to the path has left in this process, or starts one.
    private func continueOrBegin(_ write: Write, partSize: Int) async throws -> PartedUpload {
        if let former = unfinishedUploads.removeValue(forKey: write.path) {
            // With another part size, no part is identical.
            if former.partSize == partSize { return former.continued(by: write) }
            await abort(former.identifier, of: location.key(write.path))
        }
        return try await begin(write, partSize: partSize, nil)
    }

    /// Starts an upload, and records it in `receipts` if another process may resume it.
    ///
    /// Such an upload has no checksums: its completion would have to name those of earlier attempts' parts, too.
    func begin(_ write: Write, partSize: Int, _ receipts: (any WriteReceipts)?) async throws -> PartedUpload {
        let checks = try await serverProfile().checks
        let identifier = try await start(write, hasChecksums: receipts == nil && checks.contains(.checksum))
        let upload = PartedUpload(identifier: identifier, write: write, partSize: partSize, receipts: receipts)
        await receipts?.replace(with: upload.notedReceipts)
        return upload
    }

    /// Starts an upload, and returns its identifier.
    func start(_ write: Write, hasChecksums: Bool) async throws -> String {
        let response = try await perform(
            .POST,
            location.key(write.path),
            query: ["uploads": ""],
            headers: write.mark + (hasChecksums ? [("X-Amz-Checksum-Algorithm", "SHA256")] : [])
        )
        return try identifier(ofUploadStartedBy: response, at: write.path)
    }

    /// Returns the identifier of the upload that a request has started.
    func identifier(ofUploadStartedBy response: HTTPResponse, at path: RemotePath) throws -> String {
        let element = try parsed(response, at: path) { bytes throws(CheckedXML.Malformed) in
            try S3Element(bytes, named: "InitiateMultipartUploadResult")
        }
        guard let identifier = element["UploadId"], !identifier.isEmpty else {
            throw RemoteError(
                .unavailable,
                "\(identity) started an upload without an upload ID. Try again.",
                path: path
            )
        }
        return identifier
    }

    /// Sends parts, and returns the number of all parts, including the former ones.
    private func sendParts(
        _ next: (bytes: [UInt8], isLast: Bool),
        rest: inout PartReader,
        of upload: inout PartedUpload,
        after former: Int
    ) async throws -> Int {
        // The configuration limits the memory: fewer parts are sent concurrently if they are larger, at least one.
        let parallelParts = min(max(1, configuration.parallelParts), PartedUpload.maximumParts)
        let memory = configuration.allowedPartSize * parallelParts
        let path = upload.write.path
        let profile = try await serverProfile()
        let checks = upload.isKept ? profile.checksOfKeptParts : profile.checks
        return try await withThrowingTaskGroup(of: (Int, PartedUpload.Part).self) { group in
            do {
                var ((bytes, isLast), number, running) = (next, former + 1, 0)
                while true {
                    try checkCount(number, path)
                    let parallel = max(1, min(parallelParts, memory / rest.size))
                    while running >= parallel, let (done, part) = try await group.next() {
                        upload.parts[done] = part
                        running -= 1
                    }
                    group.addTask { [upload, bytes, number] in
                        // Computed off the actor: the digests take time.
                        let payload = S3Payload(bytes, checks)
                        if let part = upload.parts[number], part.sha256 == payload.sha256 { return (number, part) }
                        let part = try await self.sendPart(payload, number, of: upload)
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
                if error is LostUpload { upload.isAborted = true }
                // If a later write may resume this upload, the remaining requests finish: their parts needn't be sent again.
                if !upload.isOfUse(after: error) { group.cancelAll() }
                while let result = await group.nextResult() {
                    if case .success((let done, let part)) = result { upload.parts[done] = part }
                }
                throw error is LostUpload ? lost(upload.write) : error
            }
        }
    }

    private func checkCount(_ number: Int, _ path: RemotePath) throws(RemoteError) {
        guard number > PartedUpload.maximumParts else { return }
        throw RemoteError(
            .unsupported,
            "“\(path)” needs more than \(PartedUpload.maximumParts) parts, which S3 doesn't store. Split it, or use larger parts.",
            path: path
        )
    }

    /// The server doesn't have the upload any more, for instance because another program has aborted it.
    private struct LostUpload: Error {}

    private func sendPart(
        _ payload: S3Payload,
        _ number: Int,
        of upload: PartedUpload
    ) async throws -> PartedUpload.Part {
        let path = upload.write.path
        let response = try await perform(
            .PUT,
            location.key(path),
            query: ["partNumber": "\(number)", "uploadId": upload.identifier],
            payload: payload
        )
        if S3Failure(response)?.code == "NoSuchUpload" { throw LostUpload() }
        let tag = try tag(of: response, at: path)
        return PartedUpload.Part(tag: tag, payload, isOfKeptUpload: upload.isKept)
    }

    /// Completes a conditional upload while no other client completes one at the same path.
    ///
    /// Every tested server that supports conditions enforces them in a race of PUTs, but SeaweedFS doesn't in a race of
    /// completions. A client therefore creates a *claim* first, a hidden key derived from the file's name, and removes it
    /// afterwards. Another client removes an abandoned claim when it is ten minutes old by the server's clock.
    private func completeAlone(_ upload: inout PartedUpload, count: Int) async throws -> HTTPHeaders {
        guard upload.write.condition != .always, !upload.write.conditionHeader.isEmpty
        else { return try await complete(&upload, count: count) }
        var claim = Write(try TemporaryName.claim(on: upload.write.path), .ifAbsent, [("If-None-Match", "*")])
        // The same when another process resumes the upload, whose claim may be left.
        claim.identifier = upload.identifier
        try await take(claim, for: upload.write)
        return try await withCleanup {
            let existing = try await status(of: upload.write.path)
            let isOurs = try await headersIfWritten(by: upload.write) != nil
            if !isOurs { try upload.write.condition.check(existing, at: upload.write.path) }
            return try await complete(&upload, count: count)
        } cleanUp: {
            await release(claim)
        }
    }

    private func take(_ claim: Write, for write: Write) async throws {
        let retries = configuration.retries
        let backoff = ExponentialBackoff(initialDelay: retries.delay, maximumDelay: retries.longestDelay)
        for attempt in 1...12 {
            let response = try await send(S3Payload([]), claim)
            guard response.status == 412 else {
                _ = try await outcome(of: response, claim)
                return
            }
            let headers = try await headers(of: claim.path)
            let taken = headers?.date("Last-Modified")
            let age = headers?.date("Date").flatMap { now in taken.map { now.timeIntervalSince($0) } }
            // Half of the time after which others remove it is left for the completion.
            let isOurs = headers?.first(name: Write.header) == claim.identifier
            if isOurs, let age, age < 300 { return }
            if isOurs || age.map({ $0 > 600 }) == true { await release(claim) }
            try await configuration.clock.sleep(for: backoff.delay(after: attempt))
        }
        throw RemoteError(.unavailable, "Other clients are writing “\(write.path)”. Try again.", path: write.path)
    }

    private func release(_ claim: Write) async {
        await discard(location.target(location.key(claim.path)))
    }

    /// Completes an upload whose parts the server has, and returns the headers that describe the file.
    func complete(_ upload: inout PartedUpload, count: Int) async throws -> HTTPHeaders {
        try Task.checkCancellation()
        let write = upload.write
        let body = upload.completion(count)
        // The server may have completed it, or may still complete it, with other parts.
        if let former = upload.requestedCompletion, former != body {
            await abort(upload.identifier, of: location.key(write.path))
            upload.isAborted = true
            throw lost(write)
        }
        upload.requestedCompletion = body
        let response = try await perform(
            .POST,
            location.key(write.path),
            query: ["uploadId": upload.identifier],
            headers: write.conditionHeader,
            payload: S3Payload(body)
        )
        // An earlier write of the same parts may have completed the upload although no answer arrived.
        if S3Failure(response)?.code == "NoSuchUpload", let headers = try await headersIfWritten(by: write) {
            return headers
        }
        // The server can't combine these parts, or has lost the upload: resuming it would fail again.
        if [400, 404].contains(response.status) {
            await abort(upload.identifier, of: location.key(write.path))
            upload.isAborted = true
        }
        return try await outcome(of: response, write)
    }

    // MARK: Aborting

    /// Aborts an upload whose parts aren't needed, even if the task is cancelled.
    ///
    /// If the request fails, the upload is left to a later sweep.
    func abort(_ identifier: String, of key: String) async {
        await discard(location.target(key, ["uploadId": identifier]))
    }

    private func discard(_ target: String) async {
        let request = HTTPRequest(method: .DELETE, target: target, replyLimit: 1 << 16)
        await uncancelled { [transport] in _ = try? await transport.sendWithoutRetries(request) }
    }

    /// Aborts abandoned uploads, once and as far as possible.
    ///
    /// Their parts take up space, and no list of files shows them.
    private func sweep() async {
        guard !hasSwept else { return }
        hasSwept = true
        let query = ["uploads": "", "prefix": location.prefix]
        guard let response = try? await perform(.GET, query: query), response.isSuccess,
            let list = try? S3Element(response.bytes, named: "ListMultipartUploadsResult")
        else { return }
        let limit = Date(timeIntervalSinceNow: -Double(configuration.abandonedAfter.components.seconds))
        // A page of S3 has at most 1,000. Without an identifier, the request would remove the file itself.
        for upload in list.all("Upload").prefix(1000) {
            guard let key = upload["Key"], key.utf8.starts(with: location.prefix.utf8),
                let identifier = upload["UploadId"], !identifier.isEmpty, !liveUploads.contains(identifier),
                !unfinishedUploads.values.contains(where: { $0.identifier == identifier }),
                let begun = upload["Initiated"].flatMap({ ObjectList.date($0) }), begun < limit
            else { continue }
            await abort(identifier, of: key)
        }
    }
}
