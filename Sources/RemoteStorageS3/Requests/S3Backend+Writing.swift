import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

// How files are written.
extension S3Backend {
    /// Writes a file: a small one by one request, a large one in parts.
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

    /// Finds out whether a write may begin.
    ///
    /// Returns it, and the directories above it that will be there with it.
    func prepareWrite(to path: RemotePath, when condition: WriteCondition) async throws -> (Write, [RemotePath]) {
        try Task.checkCancellation()
        guard let parent = path.parent else { throw RemoteError.isRoot() }
        try checkName(path)
        let write = Write(path, condition, try await header(of: condition))
        async let existing = look(before: write)
        async let unknown = unknownParents(parent, of: path)
        let (found, missing) = try await (existing, unknown)
        try condition.check(found, at: path)
        seen.expect(path)
        return (write, missing)
    }

    /// What was written, as the server's last answer tells it.
    func written(_ write: Write, size: Int64, _ headers: HTTPHeaders, _ directories: [RemotePath]) -> RemoteItem {
        seen.insert(directories)
        return RemoteItem(
            name: write.path.lastComponent ?? "",
            kind: .file,
            size: size,
            tag: headers.first(name: "ETag").map { RemoteTag(entityTag: $0) }
        )
    }

    /// One write of a file, by whatever requests.
    struct Write: Sendable {
        /// The header that carries ``identifier``.
        static let header = "X-Amz-Meta-Storesync-Write"

        let path: RemotePath
        let condition: WriteCondition
        /// The condition as the server keeps it.
        let conditionHeader: [(String, String)]
        /// What the file carries, by which it is known whose it is.
        var identifier = UUID().uuidString

        init(_ path: RemotePath, _ condition: WriteCondition, _ conditionHeader: [(String, String)]) {
            self.path = path
            self.condition = condition
            self.conditionHeader = conditionHeader
        }

        var mark: [(String, String)] { [(Self.header, identifier)] }

        /// What a refused write is.
        var refusal: RemoteError {
            condition == .ifAbsent ? .alreadyExists(path) : .preconditionFailed(path)
        }
    }

    /// The header that makes this server keep a condition; none where it doesn't.
    private func header(of condition: WriteCondition) async throws -> [(String, String)] {
        let profile = try await serverProfile()
        switch condition {
        case .ifAbsent where profile.createsExclusively: return [("If-None-Match", "*")]
        case .ifMatches(let tag) where profile.keepsVersions: return [("If-Match", tag.rawValue)]
        default: return []
        }
    }

    /// What a condition is checked with beforehand: of a file that may be replaced, only that it's no directory.
    ///
    /// What was seen not to be there isn't looked for again, unless nobody but this look keeps the condition.
    private func look(before write: Write) async throws -> RemoteItem? {
        let path = write.path
        switch write.condition {
        case .always where seen.isAbsent(path): return nil
        case .ifAbsent where seen.isAbsent(path) && !write.conditionHeader.isEmpty: return nil
        case .always: return try await isDirectory(path) ? RemoteItem(directory: path.lastComponent ?? "") : nil
        default: return try await status(of: path)
        }
    }

    /// The directories above a file that weren't seen yet; where a file stands in the way, that is said of the file's path.
    func unknownParents(_ parent: RemotePath, of path: RemotePath) async throws -> [RemotePath] {
        do {
            return try await unknownDirectories(downTo: parent)
        } catch let error as RemoteError where error.code == .wrongKind {
            throw RemoteError.notADirectory(path)
        }
    }

    /// Sends a file by one request.
    func put(_ payload: S3Payload, _ write: Write) async throws -> HTTPHeaders {
        let response = try await perform(
            .PUT,
            location.key(write.path),
            headers: write.conditionHeader + write.mark,
            payload: payload
        )
        return try await outcome(of: response, write)
    }

    /// What the last request of a write came to.
    ///
    /// A condition may not hold any more because an earlier request of ours was carried out.
    func outcome(of response: HTTPResponse, _ write: Write) async throws -> HTTPHeaders {
        guard let failure = S3Failure(response) else { return response.headers }
        let isRefused = failure.status == 412 || failure.status == 404 && !write.conditionHeader.isEmpty
        if isRefused || failure.code == "NoSuchUpload", response.wasRepeated,
            let headers = try await headers(of: write.path), headers.first(name: Write.header) == write.identifier
        {
            return headers
        }
        guard isRefused, failure.code != "NoSuchBucket", failure.code != "NoSuchUpload" else {
            throw failure.error(at: write.path, in: location)
        }
        throw write.refusal
    }

    /// The size of a file's parts: as configured, unless there would be more of them than a file may have.
    func partSize(for length: Int64?) -> Int {
        let configured = max(configuration.partSize, configuration.minimumPartSize)
        guard let length, length > Int64(configured) * Int64(PartedUpload.mostParts) else { return configured }
        let mebibyte = Int64(1 << 20)
        let (size, most) = (length / Int64(PartedUpload.mostParts) + 1, mebibyte - 1)
        return Int((size + most) / mebibyte * mebibyte)
    }
}
