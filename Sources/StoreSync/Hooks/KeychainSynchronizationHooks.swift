import Keychain
public import RemoteStorage

/// The remote steps of ``KeychainSynchronizationOperation``.
public protocol KeychainSynchronizationHooks: SyncHooks {
    /// What is in the directory of the clients' keychain files; nothing where it isn't there.
    func listKeychainFiles(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteItem]

    /// Reads a client's keychain file; `nil` if it isn't there (any more).
    func fetchKeychainFile(of client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Puts another file in the place of this client's, or where none is.
    ///
    /// - Returns: Whether it stands there now; not, if somebody else has written there since `former` was listed.
    func saveKeychainFile(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        insteadOf former: RemoteItem?,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool
}

extension KeychainSynchronizationHooks {
    /// Lists the directory.
    public func listKeychainFiles(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteItem] {
        try await backend.list(hierarchy.keychains) ?? []
    }

    /// Reads the file; one that no client can have written is refused before it fills the memory.
    public func fetchKeychainFile(
        of client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> [UInt8]? {
        let path = hierarchy.keychain(client)
        do {
            return try await backend.bytes(at: path, upTo: KeychainFile.mostSealedBytes)
        } catch let error as RemoteError where error.code == .wrongLength {
            throw StoreSyncError.corrupt(path, "it is far too large")
        }
    }

    /// Writes the file on the condition that it is the one that was listed, where the backend can.
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
            // It may be our own write, sent twice.
            return try await fetchKeychainFile(of: client, hierarchy) == bytes
        }
    }
}
