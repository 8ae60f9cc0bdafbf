import ThreadSupport

extension FileKeychain {
    /// Whether the keychain has to be unlocked before its items can be used.
    public var isLocked: Bool { database.isLocked }

    /// What opens the keychain; `nil` for a new one, which gets its lock when it's first unlocked.
    ///
    /// - Returns: The kind of lock.
    /// - Throws: ``KeychainError``.
    public func lockKind() async throws -> KeychainLock.Kind? {
        try await runBlocking(on: executor) { [database] in try database.wrappedKey()?.kind }
    }

    /// Unlocks the keychain, until ``lock()``; gives it this lock if it's new.
    ///
    /// With a passphrase it takes a second or so. If the task is cancelled meanwhile, the keychain stays locked.
    ///
    /// - Parameter lock: The device secret or the passphrase.
    /// - Throws: ``KeychainError`` with code `wrongPassphrase`, `wrongLock`, `deviceSecretMissing`, `deviceSecretUnsafe` or
    ///   `tampered` above all; `CancellationError`.
    public func unlock(with lock: KeychainLock) async throws {
        if try await wrappedKey() == nil {
            let (wrapped, key) = try await WrappedKey.make(for: lock, executor: executor)
            try await runBlocking(on: executor) { [database] in try database.establish(wrapped, key) }
        }
        // What is in the file now, somebody else's perhaps, has to open.
        guard let wrapped = try await wrappedKey() else { return }
        let key = try await wrapped.open(with: lock, executor: executor)
        try await runBlocking(on: executor) { [database] in try database.unlock(key) }
    }

    /// Forgets the key: the keychain has to be unlocked again.
    public func lock() {
        database.lock()
    }

    /// Changes the passphrase, or the kind of lock.
    ///
    /// The keychain gets a new key and every secret is sealed anew, all in one step. Whoever kept a copy of the file from before,
    /// and knows what opened it, can still open that copy. Other processes that had the keychain unlocked have to unlock it again.
    ///
    /// - Parameter lock: What opens the keychain from now on.
    /// - Throws: ``KeychainError`` with code `locked` if it isn't unlocked, or was changed meanwhile; `CancellationError`.
    public func changeLock(to lock: KeychainLock) async throws {
        // Before a second is spent on a hash.
        try await runBlocking(on: executor) { [database] in try database.read { _ in } }
        let (wrapped, key) = try await WrappedKey.make(for: lock, executor: executor)
        try await runBlocking(on: executor) { [database] in try database.relock(wrapped, key) }
    }

    private func wrappedKey() async throws -> WrappedKey? {
        try await runBlocking(on: executor) { [database] in try database.wrappedKey() }
    }
}
