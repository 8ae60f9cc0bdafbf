import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// Writing files.
extension S3Backend {
    /// Writes a file: a small one in one request, a large one in parts.
    @discardableResult
    public func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        let (write, missing) = try await prepareWrite(to: path, when: condition)
        let size = partSize(for: content.length)
        var parts = PartReader(content, path, size: size)
        let (first, isLast) = try await parts.next()
        let headers =
            isLast
            ? try await put(S3Payload(first, serverProfile().checks), write)
            : try await upload(first, rest: &parts, partSize: size, write)
        return written(write, size: parts.count, headers, missing)
    }

    /// Checks whether a write may start.
    ///
    /// Returns the write, and the directories above the file that it creates.
    func prepareWrite(to path: RemotePath, when condition: WriteCondition) async throws -> (Write, [RemotePath]) {
        try Task.checkCancellation()
        guard let parent = path.parent else { throw RemoteError.rootIsFixed() }
        try checkName(path)
        let write = Write(path, condition, try await header(of: condition))
        async let existing = existingItem(before: write)
        async let unknown = unknownParents(parent, of: path)
        let (found, missing) = try await (existing, unknown)
        try condition.check(found, at: path)
        seen.expect(path)
        return (write, missing)
    }

    /// Returns the written file, as the server's last response describes it.
    func written(_ write: Write, size: Int64, _ headers: HTTPHeaders, _ directories: [RemotePath]) -> RemoteItem {
        seen.insert(directories)
        return RemoteItem(
            name: write.path.lastComponent ?? "",
            kind: .file,
            size: size,
            tag: headers.first(name: "ETag").map { RemoteTag(entityTag: $0) }
        )
    }

    /// One write of a file, which may take several requests.
    struct Write: Sendable {
        /// The header that carries ``identifier``.
        static let header = "X-Amz-Meta-Storesync-Write"

        let path: RemotePath
        let condition: WriteCondition
        /// The headers with which the server enforces the condition.
        let conditionHeader: [(String, String)]
        /// The identifier in the file's metadata, which tells which write created the file.
        var identifier = UUID().uuidString

        init(_ path: RemotePath, _ condition: WriteCondition, _ conditionHeader: [(String, String)]) {
            self.path = path
            self.condition = condition
            self.conditionHeader = conditionHeader
        }

        var mark: [(String, String)] { [(Self.header, identifier)] }

        /// The error of a refused write.
        var refusal: RemoteError {
            condition == .ifAbsent ? .alreadyExists(path) : .preconditionFailed(path)
        }
    }

    /// The header that makes this server enforce a condition; empty if it can't.
    private func header(of condition: WriteCondition) async throws -> [(String, String)] {
        let profile = try await serverProfile()
        switch condition {
        case .ifAbsent where profile.createsExclusively: return [("If-None-Match", "*")]
        case .ifMatches(let tag) where profile.keepsVersions: return [("If-Match", tag.rawValue)]
        default: return []
        }
    }

    /// Returns the existing item that the condition is checked against before the write.
    ///
    /// An unconditional write only checks for a directory. A path that is known to be absent isn't requested again, unless
    /// the server doesn't enforce the condition.
    private func existingItem(before write: Write) async throws -> RemoteItem? {
        let path = write.path
        switch write.condition {
        case .always where seen.isAbsent(path): return nil
        case .ifAbsent where seen.isAbsent(path) && !write.conditionHeader.isEmpty: return nil
        case .always: return try await isDirectory(path) ? RemoteItem(directory: path.lastComponent ?? "") : nil
        default: return try await status(of: path)
        }
    }

    /// Returns the directories above a file that aren't known yet.
    ///
    /// If one of them is a file, the error names `path`.
    func unknownParents(_ parent: RemotePath, of path: RemotePath) async throws -> [RemotePath] {
        do {
            return try await unknownDirectories(downTo: parent)
        } catch let error as RemoteError where error.code == .wrongKind {
            throw RemoteError.notADirectory(path)
        }
    }

    /// Sends a file in one request.
    func put(_ payload: S3Payload, _ write: Write) async throws -> HTTPHeaders {
        try await outcome(of: try await send(payload, write), write)
    }

    /// Sends a file in one request, and returns the response, whatever its status.
    func send(_ payload: S3Payload, _ write: Write) async throws -> HTTPResponse {
        try await perform(
            .PUT,
            location.key(write.path),
            headers: write.conditionHeader + write.mark,
            payload: payload
        )
    }

    /// Returns the headers of a write's last response, or throws its error.
    ///
    /// A condition may fail because the server carried out the same write before: a proxy may send it twice, too.
    func outcome(of response: HTTPResponse, _ write: Write) async throws -> HTTPHeaders {
        guard let failure = S3Failure(response) else {
            var headers = response.headers
            headers.replaceOrAdd(name: "ETag", value: try tag(of: response, at: write.path))
            return headers
        }
        // A file that was to be replaced is missing.
        let isMissing = failure.status == 404 && write.conditionHeader.contains { $0.0 == "If-Match" }
        let isRefused = failure.status == 412 || isMissing
        guard failure.code != "NoSuchBucket", isRefused || failure.status == 404 else {
            throw failure.error(at: write.path, in: location)
        }
        guard isRefused, failure.code != "NoSuchUpload" else {
            throw lost(write)
        }
        if let headers = try await headersIfWritten(by: write) { return headers }
        throw write.refusal
    }

    /// The error of a write whose upload the server doesn't have any more.
    func lost(_ write: Write) -> RemoteError {
        RemoteError(
            .unavailable,
            "\(identity) lost “\(write.path)” while it was written. Try again.",
            path: write.path
        )
    }

    /// Returns the headers of the file if this write created it.
    func headersIfWritten(by write: Write) async throws -> HTTPHeaders? {
        let headers = try await headers(of: write.path)
        return headers?.first(name: Write.header) == write.identifier ? headers : nil
    }

    /// The size of a file's parts: as configured, or larger if the file would have too many of them.
    func partSize(for length: Int64?) -> Int {
        let configured = configuration.allowedPartSize
        guard let length, length > Int64(configured) * Int64(PartedUpload.maximumParts) else { return configured }
        let mebibyte = Int64(1 << 20)
        let (size, most) = (length / Int64(PartedUpload.maximumParts) + 1, mebibyte - 1)
        return Int((size + most) / mebibyte * mebibyte)
    }
}
