public import SyncCryptography

/// A store of secrets by their attributes, shared by the applications that are entitled to it.
///
/// ``FileKeychain`` is one on every system, `SecurityKeychain` the system's own where Security.framework is. What each method
/// promises here, both keep; write another one and run the same suite over it.
///
/// Every method throws ``KeychainError``:
///
/// | Code | When |
/// |---|---|
/// | ``KeychainError/Code/itemNotFound`` | nothing matches the query |
/// | ``KeychainError/Code/duplicateItem`` | an item with these attributes is there |
/// | ``KeychainError/Code/notEntitled`` | the access group isn't one of the caller's |
/// | ``KeychainError/Code/locked`` | the keychain has to be unlocked before |
///
/// A method that threw has changed nothing. A method that a cancelled task waits for goes on to its end: a change is never
/// half made.
public protocol KeychainServices: Actor {
    /// Adds an item.
    ///
    /// - Parameters:
    ///   - secret: The secret.
    ///   - item: Its attributes; without an access group it goes into the application's own.
    /// - Returns: The attributes, with the access group.
    /// - Throws: ``KeychainError``, `duplicateItem` above all: an existing item is never overwritten.
    @discardableResult
    func add(_ secret: SecretBytes, as item: KeychainItem) async throws -> KeychainItem

    /// Finds all items that match, in every access group that the caller is entitled to.
    ///
    /// A query that says nothing of synchronizable items doesn't find them.
    ///
    /// - Parameter query: Which items.
    /// - Returns: The items with their secrets, at least one, in the order of groups, services and accounts.
    /// - Throws: ``KeychainError``, `itemNotFound` if nothing matches.
    func copyMatching(_ query: KeychainQuery) async throws -> [KeychainMatch]

    /// Gives every item that matches another secret.
    ///
    /// - Parameters:
    ///   - query: Which items.
    ///   - secret: Their secret from now on.
    /// - Throws: ``KeychainError``, `itemNotFound` if nothing matches.
    func update(_ query: KeychainQuery, to secret: SecretBytes) async throws

    /// Deletes every item that matches; of synchronizable items, on all devices.
    ///
    /// - Parameter query: Which items; a synchronizable one has to be asked for as such.
    /// - Throws: ``KeychainError``, `itemNotFound` if nothing matches.
    func delete(_ query: KeychainQuery) async throws

    /// Removes every item that matches from this device, and takes nothing from any other.
    ///
    /// A synchronizable item comes back when the keychain is next synchronized, if it had left this device at all. A keychain
    /// that can't remove one from this device alone leaves it.
    ///
    /// - Parameter query: Which items; it's no error if there are none.
    /// - Throws: ``KeychainError``.
    func blitz(_ query: KeychainQuery) async throws
}

extension KeychainServices {
    /// Finds one secret: the first of those that match, in the order of ``copyMatching(_:)``.
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
        No item matches in any access group that the caller is entitled to. A synchronizable item is found only by a query \
        that says so, and after the keychain was synchronized.
        """
    )
}
