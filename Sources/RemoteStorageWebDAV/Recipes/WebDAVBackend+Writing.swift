import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

// Writes files by the recipe that the server's guarantees require.
extension WebDAVBackend {
    /// Writes a file by the recipe that is safe on this server, and checks that as many bytes as were sent arrived.
    @discardableResult
    public func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try Task.checkCancellation()
        guard path != .root else { throw RemoteError.rootIsFixed() }
        let profile = try await serverProfile()
        switch condition {
        case .always where profile.putsAtomically:
            return try await put(content, to: path)
        case .always:
            let existing = try await status(of: path)
            try condition.check(existing, at: path)
            try await putAside(replacing: existing, at: path) { try await self.put(content, to: $0) }
        case .ifAbsent where profile.keepsConditions:
            try condition.check(try await status(of: path), at: path)
            let header = ("If-None-Match", "*")
            return try await put(content, to: path, header: header, otherwise: .alreadyExists(path))
        case .ifAbsent:
            return try await create(path, content) { try await self.put(content, to: $0) }
        case .ifMatches(let tag):
            try condition.check(try await status(of: path), at: path)
            guard profile.keepsConditions else {
                return try await write(content, to: path, when: .always)
            }
            let header = ("If-Match", tag.rawValue)
            return try await put(content, to: path, header: header, otherwise: .preconditionFailed(path))
        }
        return try await written(path)
    }

    /// Returns the written file, as the server reports it.
    func written(_ path: RemotePath) async throws -> RemoteItem {
        guard let item = try await status(of: path) else {
            throw RemoteError(.unavailable, "“\(path)” was written, but doesn't exist. Try again.", path: path)
        }
        return item
    }

    // MARK: PUT

    /// Writes a content to a path by PUT, and creates the directories above it.
    ///
    /// If this throws and PUT isn't atomic on this server, the file's state is unknown.
    ///
    /// - Parameters:
    ///   - content: The bytes.
    ///   - path: The file.
    ///   - header: A condition that this server keeps.
    ///   - refusal: The error to throw if the server reports that the condition doesn't hold.
    /// - Returns: The file, as the server reports it.
    /// - Throws: The refusal; what the content throws; ``RemoteError``.
    @discardableResult
    func put(
        _ content: RemoteContent,
        to path: RemotePath,
        header: (String, String)? = nil,
        otherwise refusal: RemoteError? = nil
    ) async throws -> RemoteItem {
        guard let parent = path.parent else { throw RemoteError.rootIsFixed() }
        let profile = try await serverProfile()
        for isLast in [false, true] {
            try await makeSureInFile(of: parent, for: path)
            let counted = CountedContent(content)
            let response = try await transport.send(
                HTTPRequest(
                    method: .PUT,
                    target: location.target(path),
                    headers: header.map { [$0] } ?? [],
                    body: .content(counted.content, path)
                )
            )
            await response.discard()
            // Without atomic PUT, the file has a name of its own, so that no former file can be taken for it.
            if response.isCompleteSuccess || response.isSuccess && !profile.putsAtomically {
                return try await arrived(counted, at: path)
            }
            // The success may be a login page's. A condition may fail only because an earlier attempt was carried out.
            let mayBeDone = response.isSuccess || response.status == 412 && response.wasRepeated
            if mayBeDone, try await holds(content, at: path) { return try await written(path) }
            if response.status == 412, let refusal { throw refusal }
            if try await status(of: path)?.kind == .directory { throw RemoteError.notAFile(path) }
            guard try await status(of: parent)?.kind != .directory, !isLast else { throw failure(response, at: path) }
            // The directory existed before, but has been removed.
            directories.forget(above: path)
        }
        preconditionFailure("the last attempt returns or throws")
    }

    /// Creates the directory that contains a file; if another file is in the way, the error names `path`.
    private func makeSureInFile(of parent: RemotePath, for path: RemotePath) async throws {
        do {
            try await makeSure(of: parent)
        } catch let error as RemoteError where error.code == .wrongKind {
            throw RemoteError.notADirectory(path)
        }
    }

    /// Checks that the server has as many bytes as were sent, because a proxy or the server may have dropped some.
    ///
    /// Some gateways store an empty file if the length isn't known in advance, and report success.
    private func arrived(_ counted: CountedContent, at path: RemotePath) async throws -> RemoteItem {
        let item = try await written(path)
        guard let length = counted.content.length ?? counted.sentBytes else {
            throw RemoteError(
                .unavailable,
                "\(identity) reported success before all of “\(path)” was sent. Try again.",
                path: path
            )
        }
        guard item.size != length else { return item }
        throw RemoteError(
            .unavailable,
            """
            Of “\(path)”, \(item.size) of \(length) bytes arrived. Another device may have written it, or a proxy has cut it. \
            Try again. If that doesn't help, let the server's proxy or gateway buffer requests.
            """,
            path: path
        )
    }

    /// Returns whether a file holds exactly these bytes.
    func holds(_ content: RemoteContent, at path: RemotePath) async throws -> Bool {
        guard let remote = try await read(path, range: nil) else { return false }
        if let length = content.length, let other = remote.length, length != other { return false }
        var rest: [UInt8] = []
        var theirs = remote.makeAsyncIterator()
        for try await chunk in content {
            while rest.count < chunk.count, let more = try await theirs.next() { rest += more }
            guard rest.starts(with: chunk) else { return false }
            rest.removeFirst(chunk.count)
        }
        while rest.isEmpty, let more = try await theirs.next() { rest += more }
        return rest.isEmpty
    }

    // MARK: Temporary files

    /// Returns a unique, hidden name in the directory of a file.
    func temporaryName(beside path: RemotePath) throws -> RemotePath {
        guard let parent = path.parent else { throw RemoteError.rootIsFixed() }
        return try parent.appending(TemporaryName.with(UUID().uuidString))
    }

    /// Writes a file into a temporary directory and moves it to its own name.
    ///
    /// The temporary file isn't in the same directory, because rclone's list of a directory stops at a file that is being
    /// written there. If the file exists already, the server removes it first, so that a reader may see no file.
    /// `place` may be called twice.
    func putAside(
        replacing existing: RemoteItem?,
        at path: RemotePath,
        _ place: (RemotePath) async throws -> Void
    ) async throws {
        guard let parent = path.parent else { throw RemoteError.rootIsFixed() }
        try await makeSureInFile(of: parent, for: path)
        let aside = try temporaryName(beside: path)
        let temporary = try aside.appending("content")
        try await withCleanup {
            try await createDirectory(at: aside)
            try await place(temporary)
            var overwrites = existing != nil
            for isLast in [false, false, true] {
                let outcome = try await sendMove(.MOVE, temporary, to: path, overwrites: overwrites)
                // A proxy may have sent the request twice, or the server may have failed after the move. A second move would
                // remove the file on servers that first remove the destination.
                guard case .refused(let response) = outcome, try await !hasMoved(temporary, to: path) else { break }
                if overwrites, !isLast, try await status(of: temporary) == nil {
                    // Such a server got the request twice: it has moved the file, and then removed it.
                    try await place(temporary)
                } else {
                    // Another client wrote the file in the meantime. This write counts as the later one, and replaces it.
                    guard !overwrites, !isLast, try await status(of: path)?.kind == .file else {
                        throw failure(response, at: path)
                    }
                }
                overwrites.toggle()
            }
        } cleanUp: {
            await removeLeftover(aside, isDirectory: true)
        }
    }

    /// The outcome of a move.
    enum MoveOutcome {
        case moved
        case refused(HTTPResponse)
    }

    /// Sends a COPY or MOVE.
    ///
    /// If a MOVE was sent twice, or its answer isn't a WebDAV server's, the result decides. The caller judges all refusals: it
    /// knows whether other clients may move the same source.
    func sendMove(
        _ method: HTTPMethod,
        _ source: RemotePath,
        to destination: RemotePath,
        isDirectory: Bool = false,
        overwrites: Bool
    ) async throws -> MoveOutcome {
        var request = HTTPRequest(
            method: method,
            target: location.target(source, isDirectory: isDirectory),
            headers: [("Overwrite", overwrites ? "T" : "F")]
        )
        // Some servers first remove the destination, which may be the file that an earlier request has moved there.
        request.mayBeRepeated = !(method == .MOVE && overwrites)
        var schedule = RetrySchedule(settings.retries)
        while true {
            schedule.begin()
            do {
                let target = location.target(destination, isDirectory: isDirectory)
                let response = try await send(request, of: source, withDestination: target)
                if response.isCompleteSuccess { return .moved }
                guard method == .MOVE, response.wasRepeated || response.isSuccess,
                    try await hasMoved(source, to: destination)
                else { return .refused(response) }
                return .moved
            } catch let failure as RemoteError where failure.code == .unavailable && !request.mayBeRepeated {
                if try await hasMoved(source, to: destination) { return .moved }
                guard let delay = schedule.delay(retryAfter: nil, random: .random(in: 0..<1)) else { throw failure }
                try await settings.clock.sleep(for: delay)
                // The server may still be moving the file. A request that doesn't overwrite changes nothing then, and is
                // refused if the destination is still the former file. If it is, the first request most probably never
                // arrived, and is repeated.
                let outcome = try await sendMove(
                    method,
                    source,
                    to: destination,
                    isDirectory: isDirectory,
                    overwrites: false
                )
                guard case .refused(let response) = outcome else { return outcome }
                if try await hasMoved(source, to: destination) { return .moved }
                guard [405, 409, 412].contains(response.status) else { return outcome }
            }
        }
    }

    private func hasMoved(_ source: RemotePath, to destination: RemotePath) async throws -> Bool {
        guard try await status(of: source) == nil else { return false }
        return try await status(of: destination) != nil
    }

    /// Removes an unfinished item of this client, even in a cancelled task; if that fails, the item stays hidden.
    func removeLeftover(_ path: RemotePath, isDirectory: Bool) async {
        directories.forget(path)
        let request = HTTPRequest(method: .DELETE, target: location.target(path, isDirectory: isDirectory))
        await uncancelled { [transport] in await (try? transport.sendWithoutRetries(request))?.discard() }
    }
}
