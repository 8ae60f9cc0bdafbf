public import Keychain
public import Operations

/// The application's keychain.
extension ApplicationSyncManager {
    /// The application's keychain on this device, created if it doesn't exist.
    ///
    /// ``synchronizeKeychain(mayCreate:after:options:)`` exchanges its synchronizable items with the application's other
    /// devices, if the application is encrypted. All other items stay on this device. If this device is set up again for
    /// a recreated application, the keychain loses its former items. Its lock can't be changed.
    ///
    /// - Parameter entitlements: The access groups that the caller is entitled to.
    /// - Returns: The keychain, unlocked by the secret in the state directory.
    /// - Throws: ``StoreSyncError`` with code `keychainLocked`, `cannotWrite`, `corrupt`, `busy` or `unsupportedFormat`.
    public func keychain(entitlements: Entitlements) async throws -> FileKeychain {
        try await translatingErrors {
            try await state.keychain(for: key, entitlements: entitlements, on: nil)
        }
    }

    /// Synchronizes the synchronizable items of the application's keychain with its other devices.
    ///
    /// ```swift
    /// let keychain = try await manager.keychain(entitlements: entitlements)
    /// try await keychain.add(SecretBytes("secret"), as: item)
    /// let synchronization = try await manager.synchronizeKeychain().value
    /// ```
    ///
    /// Registers first. If the application isn't encrypted, no items are exchanged.
    ///
    /// - Parameters:
    ///   - mayCreate: Whether the application is created if it doesn't exist.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The synchronization's handle.
    @discardableResult
    public func synchronizeKeychain(
        mayCreate: Bool = false,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<KeychainSynchronization> {
        let registration = register(
            mayCreate: mayCreate,
            after: dependencies,
            options: self.options(ofStepBefore: options)
        )
        return synchronizeKeychain(registeredBy: registration, options: options).cancelling(registration)
    }

    /// Synchronizes the keychain once a registration has completed, concurrently with other operations that wait for
    /// it.
    ///
    /// - Parameters:
    ///   - registration: A registration that this manager returned.
    ///   - options: Priority, retry, keys and the rest.
    /// - Returns: The synchronization's handle.
    @discardableResult
    public func synchronizeKeychain(
        registeredBy registration: OperationHandle<ApplicationRegistration>,
        options: OperationOptions? = nil
    ) -> OperationHandle<KeychainSynchronization> {
        registration.then(options: self.options(options, locking: [.keychain(key)])) { [backend, state] registered in
            KeychainSynchronizationOperation(registered, backend: backend, state: state)
        }
    }

    /// Finds items of the application's keychain as its `copyMatching` does, also items that only other devices have.
    ///
    /// If no item on this device matches, and the query asks for synchronizable items, the keychain is synchronized first.
    /// Cancelling the calling task cancels that.
    ///
    /// - Parameters:
    ///   - query: Which items.
    ///   - entitlements: The access groups that the caller is entitled to.
    /// - Returns: The items with their secrets, at least one.
    /// - Throws: `KeychainError`, and what ``synchronizeKeychain(mayCreate:after:options:)`` fails with; `CancellationError`.
    public func copyMatching(_ query: KeychainQuery, entitlements: Entitlements) async throws -> [KeychainMatch] {
        let keychain = try await keychain(entitlements: entitlements)
        do {
            return try await keychain.copyMatching(query)
        } catch let error as KeychainError where error.code == .itemNotFound && query.synchronizable != .absent {
            _ = try await synchronizeKeychain().structuredValue
            return try await keychain.copyMatching(query)
        }
    }
}
