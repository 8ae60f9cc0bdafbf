import Foundation
import ThreadSupport

extension FileKeychain {
    /// Merges the files of all clients, and returns the file that this client has to publish.
    ///
    /// Read all files, merge them, and replace this client's file with the returned one. Other devices get this device's changes
    /// when they merge. An interruption between these steps does no harm: the next synchronization completes them. The caller
    /// leaves out a file that can't be opened, and tombstones are kept meanwhile.
    ///
    /// The merge is one transaction, and sees all synchronizable items, whatever the entitlements.
    ///
    /// - Parameters:
    ///   - files: The files by client, including this client's if it exists.
    ///   - client: This client.
    ///   - registered: All clients that are registered with the application. A deletion is remembered until each of them knows
    ///     of it.
    /// - Returns: The file to publish; `nil` if this client's file is up to date.
    /// - Throws: ``KeychainError``, having changed nothing; `full` if the clients together exceed the limits of a keychain.
    public func merge(
        _ files: [String: KeychainFile],
        as client: String,
        registered: Set<String>
    ) async throws -> KeychainFile? {
        try await write { keychain in
            let former = try keychain.replica()
            var replica = former
            let next = try replica.merge(files, as: client, registered: registered, identifier: UUID.init)
            try keychain.write(replica, insteadOf: former)
            return next
        }
    }

    /// Records that a file that ``merge(_:as:registered:)`` returned was published.
    ///
    /// Without this record the next merge finds the file. A backup that is made in between doesn't know that its edits are published:
    /// restored, the keychain publishes them again, and with them items that all clients have deleted since.
    ///
    /// - Parameter file: The file.
    /// - Throws: ``KeychainError``.
    package func notePublished(_ file: KeychainFile) async throws {
        try await write { keychain in
            var clock = try keychain.clock()
            // The keychain may have taken another identifier in the meantime.
            guard clock.replica == file.replica else { return }
            clock.notePublished(upTo: file.seen[file.replica, default: 0])
            try keychain.write(clock)
        }
    }

    /// Returns whether the keychain takes part in synchronization.
    ///
    /// - Returns: Whether it holds a synchronizable item or a tombstone, or has seen an edit of such an item.
    /// - Throws: ``KeychainError``.
    package func isSynchronized() async throws -> Bool {
        try await runBlocking(on: executor) { [database] in
            try database.read { try !$0.clock().seen.isEmpty || !$0.rows(where: "isSynchronizable != 0").isEmpty }
        }
    }

    /// Removes every item from this device alone, whatever the entitlements, and forgets every deletion.
    ///
    /// ``blitz(_:)`` keeps deletions, because the same clients have to know of them. Clients of another application don't: a
    /// deletion in a former one would delete their items of the same names.
    ///
    /// - Throws: ``KeychainError``.
    package func blitzAll() async throws {
        try await write { keychain in
            var clock = try keychain.clock()
            clock.renew(as: UUID())
            try keychain.removeAll()
            try keychain.write(clock)
        }
    }
}
