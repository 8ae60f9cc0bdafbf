import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP

// Creates a file exclusively on servers whose conditions don't hold in a race.
//
// On all servers, only one of several concurrent moves of a non-empty collection to one name succeeds. So the file is
// written into a temporary collection, which is moved to the *claim*, a hidden name derived from the file's name. The client
// whose move succeeds has won. Then the file is moved out of the claim to its own name, by the winner or, if the winner has
// died, by the next client. The winner removes the claim when the file exists. From then on, the file itself prevents
// further creations: every server detects an existing file.
extension WebDAVBackend {
    /// Creates a file that doesn't exist.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - content: The bytes, to recognize the file.
    ///   - place: Writes the bytes to the path that it receives.
    /// - Returns: The file, as the server reports it.
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
            throw RemoteError(.unavailable, "Other clients are creating “\(path)”, too. Try again.", path: path)
        } catch {
            await removeLeftover(aside, isDirectory: true)
            throw error
        }
    }

    private func prepareClaim(at aside: RemotePath, _ place: (RemotePath) async throws -> Void) async throws {
        // Keeps the claim non-empty even after the file has been moved out: some servers replace an empty collection.
        async let mark: Void = createDirectory(at: aside.appending("taken"))
        try await place(aside.appending("content"))
        try await mark
        directories.forget(aside)
    }

    /// Tries to win the claim, and publishes the file; if another client has won, completes that client's creation.
    ///
    /// Returns the file if this client has won, else `nil`.
    private func claim(
        _ path: RemotePath,
        _ content: RemoteContent,
        with aside: RemotePath
    ) async throws -> RemoteItem? {
        // The client that moves a collection there may create the file.
        let claim = try TemporaryName.claim(on: path)
        let claimed = try claim.appending("content")
        let outcome = try await sendMove(.MOVE, aside, to: claim, isDirectory: true, overwrites: false)
        // A server may report a failure although it carried out the move, because another client has moved the file on.
        if case .refused = outcome, try await status(of: aside) != nil {
            if case .moved = try await sendMove(.MOVE, claimed, to: path, overwrites: false) { return nil }
            // The claim has no content, and the file doesn't exist. The winner died after it had created the file, which
            // has been removed since.
            if try await status(of: claimed) == nil, try await status(of: path) == nil {
                await removeLeftover(claim, isDirectory: true)
            }
            return nil
        }
        // This client has won, and finishes even if the task is cancelled.
        let publication = Task { try await self.publish(claimed, at: path, content) }
        let isOurs = try await publication.value
        async let item = isOurs ? written(path) : nil
        await removeLeftover(claim, isDirectory: true)
        guard let item = try await item else { throw RemoteError.alreadyExists(path) }
        return item
    }

    /// Gives the claimed file its name.
    ///
    /// Returns whether the file of that name is now the claimed one.
    private func publish(_ claimed: RemotePath, at path: RemotePath, _ content: RemoteContent) async throws -> Bool {
        guard case .refused(let response) = try await sendMove(.MOVE, claimed, to: path, overwrites: false) else {
            return true
        }
        guard try await status(of: claimed) == nil else {
            // The file existed before the claim.
            guard try await status(of: path) == nil else { return false }
            throw failure(response, at: path)
        }
        // Another client completed the creation, or removed the claim as a leftover.
        guard try await status(of: path) == nil else { return try await holds(content, at: path) }
        throw RemoteError(.unavailable, "“\(path)” was created, and removed at once. Try again.", path: path)
    }
}
