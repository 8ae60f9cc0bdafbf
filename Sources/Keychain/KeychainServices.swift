public import SyncCryptography

/// A store of secrets with attributes, shared by the applications that are entitled to it.
///
/// ``FileKeychain`` works on every system; `SecurityKeychain` is the system's own, where Security.framework exists. Both keep the
/// promises of each method here. If you write another implementation, run the same test suite over it.
///
/// Every method throws ``KeychainError``:
///
/// | Code | When |
/// |---|---|
/// | ``KeychainError/Code/itemNotFound`` | nothing matches the query |
/// | ``KeychainError/Code/duplicateItem`` | an item with these attributes exists |
/// | ``KeychainError/Code/notEntitled`` | the caller isn't entitled to the access group |
/// | ``KeychainError/Code/locked`` | the keychain has to be unlocked first |
///
/// A method that throws has changed nothing. If the waiting task is cancelled, the method still runs to its end, so a change is
/// never incomplete.
public protocol KeychainServices: Actor {
    /// Adds an item.
    ///
    /// - Parameters:
    ///   - secret: The secret.
    ///   - item: Its attributes; an item without an access group goes into the application's own.
    /// - Returns: The attributes, with the access group.
    /// - Throws: ``KeychainError``; `duplicateItem` if the item exists, since it's never overwritten.
    @discardableResult
    func add(_ secret: SecretBytes, as item: KeychainItem) async throws -> KeychainItem

    /// Finds all items that match, in every access group that the caller is entitled to.
    ///
    /// A query finds synchronizable items only if it asks for them.
    ///
    /// - Parameter query: Which items.
    /// - Returns: The items with their secrets, at least one, in the order of groups, services and accounts.
    /// - Throws: ``KeychainError``, `itemNotFound` if nothing matches.
    func copyMatching(_ query: KeychainQuery) async throws -> [KeychainMatch]

    /// Replaces the secret of every item that matches.
    ///
    /// - Parameters:
    ///   - query: Which items.
    ///   - secret: The new secret.
    /// - Throws: ``KeychainError``, `itemNotFound` if nothing matches.
    func update(_ query: KeychainQuery, to secret: SecretBytes) async throws

    /// Deletes every item that matches; synchronizable items are deleted on all devices.
    ///
    /// - Parameter query: Which items; it has to ask for synchronizable items explicitly.
    /// - Throws: ``KeychainError``, `itemNotFound` if nothing matches.
    func delete(_ query: KeychainQuery) async throws

    /// Removes every item that matches from this device alone.
    ///
    /// A synchronizable item comes back with the next synchronization, if it was ever published. Earlier deletions still reach
    /// the other devices. A keychain that can't remove such an item from this device alone keeps it.
    ///
    /// - Parameter query: Which items; it's no error if none match.
    /// - Throws: ``KeychainError``.
    func blitz(_ query: KeychainQuery) async throws
}

extension KeychainServices {
    /// Returns the secret of the first item that matches, in the order of ``copyMatching(_:)``.
    ///
    /// - Parameter query: Which item.
    /// - Returns: Its secret.
    /// - Throws: ``KeychainError``, `itemNotFound` if nothing matches.
    public func secret(matching query: KeychainQuery) async throws -> SecretBytes {
        guard let match = try await copyMatching(query).first else { throw KeychainError.itemNotFound }
        return match.secret
    }
}

extension KeychainError {
    static let itemNotFound = KeychainError(
        .itemNotFound,
        """
        No item matches in any access group that the caller is entitled to. A query finds a synchronizable item only if it \
        asks for synchronizable items, and after the keychain was synchronized.
        """
    )
}
