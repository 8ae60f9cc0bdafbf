import Keychain
public import RemoteStorage

/// The remote steps of ``KeychainSynchronizationOperation``.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol KeychainSynchronizationHooks: SyncHooks {
    /// The items in the directory of the clients' keychain files; empty if the directory doesn't exist.
    func listKeychainFiles(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteItem]

    /// Reads a client's keychain file; `nil` if it doesn't exist (any more).
    ///
    /// - Throws: ``StoreSyncError/Code/corrupt`` if it has more than `limit` bytes, without having them all in memory.
    func fetchKeychainFile(
        of client: RemoteIdentifier,
        upTo limit: Int,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> [UInt8]?

    /// Creates or replaces this client's keychain file.
    ///
    /// - Returns: Whether the remote now holds this file; `false` if the file has changed since `former` was listed.
    func saveKeychainFile(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        insteadOf former: RemoteItem?,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool

    /// Removes the client's keychain file.
    func removeKeychainFile(of client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws
}

extension KeychainSynchronizationHooks {
    /// Lists the directory.
    public func listKeychainFiles(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteItem] {
        try await backend.list(hierarchy.keychains) ?? []
    }

    /// Reads the file, and refuses a file that is too large before it fills the memory.
    public func fetchKeychainFile(
        of client: RemoteIdentifier,
        upTo limit: Int,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.keychain(client), isReplaced: true, upTo: limit)
    }

    /// Writes the file, on the condition that it's still the listed one if the backend can check that.
    public func saveKeychainFile(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        insteadOf former: RemoteItem?,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool {
        let capabilities = try await backend.capabilities()
        var condition = WriteCondition.always
        if let tag = former?.tag {
            if capabilities.contains(.conditionalReplace) { condition = .ifMatches(tag) }
        } else if former == nil, capabilities.contains(.exclusiveCreate) {
            condition = .ifAbsent
        }
        do {
            try await backend.write(bytes, to: hierarchy.keychain(client), when: condition)
            return true
        } catch let error as RemoteError where [.preconditionFailed, .alreadyExists].contains(error.code) {
            // The conflict may come from this client's own request, sent twice.
            return try await fetchKeychainFile(of: client, upTo: KeychainFile.maximumSealedBytes, hierarchy)
                == bytes
        }
    }

    /// Removes the file.
    public func removeKeychainFile(of client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws {
        try await backend.remove(hierarchy.keychain(client))
    }
}
