import Crypto
import Foundation
import RemoteStorage

// Creating a file exclusively, where no condition holds in a race.
//
// What all servers let only one win is moving a collection that isn't empty. So the file is put into one, which is moved to
// the *claim*, a hidden name that follows from the file's: whoever succeeds has won. Then the file is moved out of the claim
// to its own name, by the winner or, if it has died, by whoever comes next. The claim is removed when the file is there, which
// from then on refuses everybody: that it's there is seen by every server that isn't raced.
extension WebDAVBackend {
    /// Creates a file that isn't there.
    ///
    /// - Parameters:
    ///   - path: Where.
    ///   - place: Puts the bytes at a path that it is given.
    /// - Throws: ``RemoteError/Code/alreadyExists``.
    func create(_ path: RemotePath, _ place: (RemotePath) async throws -> Void) async throws {
        let aside = try temporaryName(beside: path)
        do {
            try await prepareClaim(at: aside, place)
            for _ in 0..<4 {
                try Task.checkCancellation()
                if try await claim(path, with: aside) { return }
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
        let digest = SHA256.hash(data: Array(name.utf8)).prefix(16).map { String(UInt($0) | 0x100, radix: 16).dropFirst() }
        return try parent.appending(".storesync-claim-\(digest.joined()).tmp")
    }

    private func prepareClaim(at aside: RemotePath, _ place: (RemotePath) async throws -> Void) async throws {
        try await createDirectory(at: aside)
        // Never empty, not even when the file has been moved out: some servers replace what is empty.
        async let mark: Void = createDirectory(at: aside.appending("taken"))
        try await place(aside.appending("content"))
        try await mark
        forget(aside)
    }

    /// Tries to win, and gives the file its name if so; else completes what the winner hasn't.
    ///
    /// Returns whether this one won.
    private func claim(_ path: RemotePath, with aside: RemotePath) async throws -> Bool {
        let claim = try claimName(of: path)
        let content = try claim.appending("content")
        guard case .moved = try await sendMove(.move, aside, to: claim, isDirectory: true, overwrites: false) else {
            // Whatever comes of it: the winner does the same.
            let published = try await moveFile(content, to: path, overwrites: false)
            if case .moved = published { await removeLeftover(claim, isDirectory: true) }
            return false
        }
        // From here on it is ours, and finished also when the task is cancelled.
        let publication = Task { try await self.publish(content, at: path) }
        let isOurs = try await publication.value
        await removeLeftover(claim, isDirectory: true)
        guard isOurs else { throw RemoteError.alreadyExists(path) }
        return true
    }

    /// Gives the claimed file its name.
    ///
    /// Returns whether it has it now, and not another one's.
    private func publish(_ content: RemotePath, at path: RemotePath) async throws -> Bool {
        guard case .refused(let response) = try await moveFile(content, to: path, overwrites: false) else {
            return true
        }
        // Still in the claim: there was a file, from before. Gone: somebody helped.
        if try await status(of: content) != nil {
            guard try await status(of: path) == nil else { return false }
            throw error(response, at: path)
        }
        guard try await status(of: path) == nil else { return true }
        throw RemoteError(.unavailable, "“\(path)” was created, and removed at once. Try again.", path: path)
    }
}
