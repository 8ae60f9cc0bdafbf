import Foundation
import ThreadSupport

extension FileKeychain {
    /// Merges the files of all clients, and says what to publish as this client's.
    ///
    /// Read all files, merge them, and replace this client's file by what is returned: then every device finds what this one
    /// added, once it merges in its turn. It may be interrupted between any two of these; the next time mends that. A file that
    /// can't be opened is left out by the caller, and keeps tombstones from going.
    ///
    /// It's all in one transaction, and sees all synchronizable items, whatever the entitlements.
    ///
    /// - Parameters:
    ///   - files: The files by their clients, this one's included if there is one.
    ///   - client: This client.
    ///   - registered: All clients that are registered with the application: each has to know of a deletion before it's
    ///     forgotten.
    /// - Returns: What to publish; `nil` if this client's file says all that already.
    /// - Throws: ``KeychainError``, and nothing was changed: `full` if the clients together hold more than a keychain can.
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

    /// Whether the keychain has, or had, anything to do with other devices.
    ///
    /// - Returns: Whether there is a synchronizable item or a tombstone, or was an edit of one.
    /// - Throws: ``KeychainError``.
    package func isSynchronized() async throws -> Bool {
        try await runBlocking(on: executor) { [database] in
            try database.read { try !$0.clock().seen.isEmpty || !$0.rows(where: "isSynchronizable != 0").isEmpty }
        }
    }

    /// Removes every item from this device, whatever the entitlements, and takes nothing from any other.
    ///
    /// - Throws: ``KeychainError``.
    package func blitzAll() async throws {
        try await write { try $0.blitz($0.items(matching: .everything)) }
    }
}
