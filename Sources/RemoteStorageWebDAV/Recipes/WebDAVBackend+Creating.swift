import Crypto
import Foundation
import RemoteStorage
import RemoteStorageHTTP

// Creating a file exclusively, where no condition holds in a race.
//
// What all servers let only one win is moving a collection that isn't empty. So the file is put into one, which is moved to
// the *claim*, a hidden name that follows from the file's: whoever succeeds has won. Then the file is moved out of the claim
// to its own name, by the winner or, if it has died, by whoever comes next. The winner removes the claim when the file is
// there, which from then on refuses everybody: what is there already is seen by every server.
extension WebDAVBackend {
    /// Creates a file where none is.
    ///
    /// - Parameters:
    ///   - path: Where.
    ///   - content: The bytes, to know them again.
    ///   - place: Puts the bytes at a path that it is given.
    /// - Returns: The file, as the server has it.
    /// - Throws: ``RemoteError/Code/alreadyExists``.
    @discardableResult
    func create(
        _ path: RemotePath,
        _ content: RemoteContent,
        _ place: (RemotePath) async throws -> Void
    ) async throws -> RemoteItem {
        let aside = try temporaryName(beside: path)
        do {
            async let existing = status(of: path)
            try await createDirectory(at: aside)
            guard try await existing == nil else { throw RemoteError.alreadyExists(path) }
            try await prepareClaim(at: aside, place)
            for _ in 0..<4 {
                try Task.checkCancellation()
                if let item = try await claim(path, content, with: aside) { return item }
                guard try await status(of: path) == nil else { throw RemoteError.alreadyExists(path) }
            }
            throw RemoteError(.unavailable, "Others are just creating “\(path)”. Try again.", path: path)
        } catch {
            await removeLeftover(aside, isDirectory: true)
            throw error
        }
    }

    /// Where the one is that may create a file.
    private func claimName(of path: RemotePath) throws -> RemotePath {
        guard let parent = path.parent, let name = path.lastComponent else { throw RemoteError.isRoot() }
        // By a digest, since the name may be as long as a name can be.
        let digest = SHA256.hash(data: Array(name.utf8)).prefix(16)
            .map { String(UInt($0) | 0x100, radix: 16).dropFirst() }
        return try parent.appending(".storesync-claim-\(digest.joined()).tmp")
    }

    private func prepareClaim(at aside: RemotePath, _ place: (RemotePath) async throws -> Void) async throws {
        // Never empty, not even when the file has been moved out: some servers replace what is empty.
        async let mark: Void = createDirectory(at: aside.appending("taken"))
        try await place(aside.appending("content"))
        try await mark
        directories.forget(aside)
    }

    /// Tries to win, and gives the file its name if so; else completes what the winner hasn't.
    ///
    /// Returns the file, if this one won.
    private func claim(
        _ path: RemotePath,
        _ content: RemoteContent,
        with aside: RemotePath
    ) async throws -> RemoteItem? {
        let claim = try claimName(of: path)
        let claimed = try claim.appending("content")
        let outcome = try await sendMove(.move, aside, to: claim, isDirectory: true, overwrites: false)
        // A server may carry a move out and fail afterwards, because others move on already what is in it.
        if case .refused = outcome, try await status(of: aside) != nil {
            if case .moved = try await moveFile(claimed, to: path, overwrites: false) { return nil }
            // Nothing to complete, and no file: whoever claimed it died after the file was there, which is gone since.
            if try await status(of: claimed) == nil, try await status(of: path) == nil {
                await removeLeftover(claim, isDirectory: true)
            }
            return nil
        }
        // From here on it is ours, and finished also when the task is cancelled.
        let publication = Task { try await self.publish(claimed, at: path, content) }
        let isOurs = try await publication.value
        async let item = isOurs ? written(path) : nil
        await removeLeftover(claim, isDirectory: true)
        guard let item = try await item else { throw RemoteError.alreadyExists(path) }
        return item
    }

    /// Gives the claimed file its name.
    ///
    /// Returns whether it has it now, and not another one's.
    private func publish(_ claimed: RemotePath, at path: RemotePath, _ content: RemoteContent) async throws -> Bool {
        guard case .refused(let response) = try await moveFile(claimed, to: path, overwrites: false) else {
            return true
        }
        guard try await status(of: claimed) == nil else {
            // There was a file, from before.
            guard try await status(of: path) == nil else { return false }
            throw error(response, at: path)
        }
        // Somebody helped, or took the claim for one that was left over.
        guard try await status(of: path) == nil else { return try await holds(content, at: path) }
        throw RemoteError(.unavailable, "“\(path)” was created, and removed at once. Try again.", path: path)
    }
}
