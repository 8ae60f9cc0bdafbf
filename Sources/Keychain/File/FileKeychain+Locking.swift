import ThreadSupport

extension FileKeychain {
    /// Whether the keychain has to be unlocked before its items can be used.
    public var isLocked: Bool { database.isLocked }

    /// Returns the kind of lock that opens the keychain; `nil` for a new keychain.
    ///
    /// A new keychain gets its lock when it's first unlocked.
    ///
    /// - Returns: The kind of lock.
    /// - Throws: ``KeychainError``.
    public func lockKind() async throws -> KeychainLock.Kind? {
        try await wrappedKey()?.kind
    }

    /// Unlocks the keychain until ``lock()`` is called; a new keychain gets this lock.
    ///
    /// With a passphrase this takes about a second. If the task is cancelled during that second, or if ``lock()`` is called
    /// meanwhile, the keychain stays locked.
    ///
    /// - Parameter lock: The device secret or the passphrase.
    /// - Throws: ``KeychainError``, mainly with code `wrongPassphrase`, `wrongLock`, `deviceSecretMissing`, `deviceSecretUnsafe`
    ///   or `tampered`, and with code `locked` if ``lock()`` was called meanwhile; `CancellationError`.
    public func unlock(with lock: KeychainLock) async throws {
        let lockCount = database.lockCount
        var isUnlocked = false
        if try await wrappedKey() == nil {
            let (wrapped, key) = try await WrappedKey.make(for: lock, executor: executor)
            isUnlocked = try await runBlocking(on: executor) { [database] in
                try database.establish(wrapped, key)
                return try database.unlock(key, lockedTimes: lockCount)
            }
        }
        // Opens the stored key, since another process may have set up the keychain first, or change its lock meanwhile.
        while !isUnlocked, let wrapped = try await wrappedKey() {
            let key = try await wrapped.open(with: lock, executor: executor)
            isUnlocked = try await runBlocking(on: executor) { [database] in
                try database.unlock(key, lockedTimes: lockCount)
            }
        }
    }

    /// Discards the key, so that the keychain has to be unlocked again.
    public func lock() {
        database.lock()
    }

    /// Changes the passphrase, or the kind of lock.
    ///
    /// In one transaction, the keychain gets a new key and every secret is sealed again with it. An older copy of the file still
    /// opens with the former lock. Other processes that had the keychain unlocked have to unlock it again.
    ///
    /// - Parameter lock: The new lock.
    /// - Throws: ``KeychainError`` with code `locked` if it isn't unlocked, or was changed meanwhile; with code `wrongLock` if it's
    ///   the keychain of an application that `StoreSync` synchronizes, which opens it by the device secret; `CancellationError`.
    public func changeLock(to lock: KeychainLock) async throws {
        guard !hasFixedLock else {
            throw KeychainError(
                .wrongLock,
                """
                The lock of this application's keychain can't be changed: synchronization and registration open the keychain by \
                the secret in the state directory. Keep items that need a passphrase in a keychain of their own.
                """
            )
        }
        // Throws if the keychain is locked, before hashing a passphrase takes a second.
        try await runBlocking(on: executor) { [database] in try database.read { _ in } }
        let (wrapped, key) = try await WrappedKey.make(for: lock, executor: executor)
        try await runBlocking(on: executor) { [database] in try database.relock(wrapped, key) }
    }

    private func wrappedKey() async throws -> WrappedKey? {
        try await runBlocking(on: executor) { [database] in try database.wrappedKey() }
    }
}
