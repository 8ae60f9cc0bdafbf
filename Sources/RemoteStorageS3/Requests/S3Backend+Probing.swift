import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

// Probes of an unknown server. A probe can only disprove a capability.
extension S3Backend {
    /// Tests which conditions the server enforces and which checksums it accepts, with temporary keys that are removed afterwards.
    func probe() async throws -> S3ServerProfile {
        try await withProbeDirectory { place in
            async let creates = createsExclusively(in: place)
            async let keeps = keepsVersions(in: place)
            async let accepted = put([0], place.appending("checked"), [], checks: .all)
            return S3ServerProfile(
                createsExclusively: try await creates,
                keepsVersions: try await keeps,
                checks: try await accepted == 200 ? .all : .md5
            )
        } remove: { place in
            await uncancelled { try? await self.remove(place) }
        }
    }

    private func createsExclusively(in place: RemotePath) async throws -> Bool {
        let header = [("If-None-Match", "*")]
        for round in 0..<3 {
            let path = try place.appending("created \(round)")
            guard try await winners(at: path, header) == 1, try await put([9], path, header) == 412 else {
                return false
            }
        }
        // The same for a multipart upload, which some servers complete although the key exists.
        let path = try place.appending("created 0")
        let upload = try await perform(.POST, location.key(path), query: ["uploads": ""])
        guard !isRefusal(upload.status) else { return false }
        let identifier = try identifier(ofUploadStartedBy: upload, at: path)
        return try await withCleanup {
            try await refusesCompletion(of: identifier, at: path, header)
        } cleanUp: {
            await abort(identifier, of: location.key(path))
        }
    }

    /// Whether the server refuses to complete an upload under a condition that doesn't hold.
    private func refusesCompletion(
        of identifier: String,
        at path: RemotePath,
        _ header: [(String, String)]
    ) async throws -> Bool {
        let payload = S3Payload([1])
        let query = ["partNumber": "1", "uploadId": identifier]
        let sent = try await perform(.PUT, location.key(path), query: query, payload: payload)
        guard !isRefusal(sent.status) else { return false }
        var parted = PartedUpload(identifier: identifier, write: Write(path, .ifAbsent, header), partSize: 1)
        parted.parts[1] = PartedUpload.Part(tag: try tag(of: sent, at: path), payload)
        let completed = try await perform(
            .POST,
            location.key(path),
            query: ["uploadId": identifier],
            headers: header,
            payload: S3Payload(parted.completion(1))
        )
        // A login page's success doesn't disprove that the server refuses.
        if !isRefusal(completed.status), S3Failure(completed)?.code == nil { try checkStored(completed, at: path) }
        return completed.status == 412
    }

    /// Whether a status says that the server refuses a request, not that it can't answer it now.
    private func isRefusal(_ status: Int) -> Bool { (400..<500).contains(status) || status == 501 }

    private func keepsVersions(in place: RemotePath) async throws -> Bool {
        for round in 0..<3 {
            let path = try place.appending("replaced \(round)")
            guard try await put([0, 0], path, []) == 200, let tag = try await head(path)?.tag,
                try await put([9], path, [("If-Match", "\"another\"")]) == 412,
                try await winners(at: path, [("If-Match", tag.rawValue)]) == 1,
                try await put([9], path, [("If-Match", tag.rawValue)]) == 412
            else { return false }
        }
        return true
    }

    /// The number of concurrent conditional writers of one path that the server reports success to.
    private func winners(at path: RemotePath, _ header: [(String, String)]) async throws -> Int {
        let racers: [UInt8] = [1, 2, 3, 4]
        return try await racers.concurrentMap { try await self.put([$0], path, header) }.count { $0 == 200 }
    }

    /// Writes bytes to a path, and returns the response's status, or 200 for any success.
    private func put(
        _ bytes: [UInt8],
        _ path: RemotePath,
        _ headers: [(String, String)],
        checks: S3Payload.Checks = .md5
    ) async throws -> Int {
        let write = Write(path, .always, headers)
        let response = try await perform(
            .PUT,
            location.key(path),
            headers: headers + write.mark,
            payload: S3Payload(bytes, checks)
        )
        // The server may have carried out the same request before: a proxy may have sent it twice.
        if response.status == 412, try await headersIfWritten(by: write) != nil { return 200 }
        // Any other failure isn't a refusal of the condition.
        let isRefused = [412, 501, 400, 404, 409].contains(response.status)
        if isRefused { try checkRoute(response, at: path) } else { try checkStored(response, at: path) }
        return isRefused ? response.status : 200
    }
}
