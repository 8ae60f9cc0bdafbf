package import FileSupport
public import Foundation
public import SyncCryptography
import ThreadSupport

/// A keychain in an SQLite file, on every system.
///
/// Each secret is sealed for its item and version; attributes are stored in the clear. The file has mode 0600. Several
/// processes may use one file, each with its own entitlements.
///
/// ```swift
/// let keychain = try await FileKeychain(at: directory.appending(path: "keychain.sqlite"), entitlements: entitlements)
/// try await keychain.unlock(with: .deviceSecret(in: secrets))
/// let item = KeychainItem(service: "org.example.notes", account: "master key")
/// try await keychain.add(SecretBytes(randomCount: 32), as: item)
/// let secret = try await keychain.secret(matching: KeychainQuery(item))
/// ```
///
/// Synchronization by ``merge(_:as:registered:)`` sees all synchronizable items, whatever the entitlements. So use a separate
/// file for each application that is synchronized.
public actor FileKeychain: KeychainServices {
    /// The caller's entitlements.
    public nonisolated let entitlements: Entitlements

    let database: KeychainDatabase
    let executor: (any TaskExecutor)?
    let hasFixedLock: Bool

    /// Opens a keychain's file, locked, and creates the file if it doesn't exist.
    ///
    /// - Parameters:
    ///   - url: The file, in a directory that exists.
    ///   - entitlements: The caller's entitlements.
    ///   - executor: The executor for blocking files and hashes; dedicated threads if it's `nil`.
    /// - Throws: ``KeychainError`` with code `cannotWrite`, `busy`, `corrupt` or `unsupportedFormat`.
    public init(at url: URL, entitlements: Entitlements, executor: (any TaskExecutor)? = nil) async throws {
        try await self.init(at: url, entitlements: entitlements, executor: executor, options: Options())
    }

    /// How a keychain's file is used.
    package struct Options: Sendable {
        /// How many seconds to wait for another process.
        package var busyTimeout: TimeInterval
        /// Observes the commits.
        package var steps: StepObserver
        /// Whether the lock can't be changed, since another part of the program has to open the keychain too.
        package var hasFixedLock: Bool

        package init(busyTimeout: TimeInterval = 10, steps: StepObserver = .none, hasFixedLock: Bool = false) {
            self.busyTimeout = busyTimeout
            self.steps = steps
            self.hasFixedLock = hasFixedLock
        }
    }

    /// Opens a keychain's file as ``init(at:entitlements:executor:)`` does, with options.
    package init(
        at url: URL,
        entitlements: Entitlements,
        executor: (any TaskExecutor)? = nil,
        options: Options
    ) async throws {
        self.entitlements = entitlements
        self.executor = executor
        hasFixedLock = options.hasFixedLock
        database = try await runBlocking(on: executor) {
            try KeychainDatabase(url: url, options)
        }
    }

    /// Adds an item.
    ///
    /// - Parameters:
    ///   - secret: The secret.
    ///   - item: Its attributes; an item without an access group goes into ``Entitlements/defaultAccessGroup``.
    /// - Returns: The attributes, with the access group.
    /// - Throws: ``KeychainError``.
    @discardableResult
    public func add(_ secret: SecretBytes, as item: KeychainItem) async throws -> KeychainItem {
        let group = try group(of: item)
        let key = try ItemKey(service: item.service, account: item.account, accessGroup: group)
        try KeychainLimits.check(secret)
        return try await write { keychain in
            let former = try keychain.row(key, isSynchronizable: item.isSynchronizable)
            guard former?.isTombstone ?? true else { throw KeychainError.duplicate(key) }
            guard try keychain.count(ofTombstones: false) < KeychainLimits.items else { throw KeychainError.full }
            try keychain.edit(key, isSynchronizable: item.isSynchronizable, to: secret)
            return key.item(isSynchronizable: item.isSynchronizable)
        }
    }

    /// Finds all items that match, in every access group that the caller is entitled to.
    ///
    /// - Parameter query: Which items.
    /// - Returns: The items with their secrets, at least one, in the order of groups, services and accounts.
    /// - Throws: ``KeychainError``, also if one of the secrets was tampered with.
    public func copyMatching(_ query: KeychainQuery) async throws -> [KeychainMatch] {
        try check(query)
        return try await runBlocking(on: executor) { [database, entitlements] in
            try database.read { keychain in
                let rows = try keychain.items(matching: query, entitlements)
                return zip(rows, try keychain.secrets(of: rows)).compactMap { row, secret in
                    secret.map { KeychainMatch(item: row.key.item(isSynchronizable: row.isSynchronizable), secret: $0) }
                }
            }
        }
    }

    /// Replaces the secret of every item that matches.
    ///
    /// - Parameters:
    ///   - query: Which items.
    ///   - secret: The new secret.
    /// - Throws: ``KeychainError``.
    public func update(_ query: KeychainQuery, to secret: SecretBytes) async throws {
        try check(query)
        try KeychainLimits.check(secret)
        try await write { [entitlements] keychain in
            for row in try keychain.items(matching: query, entitlements) {
                try keychain.edit(row.key, isSynchronizable: row.isSynchronizable, to: secret)
            }
        }
    }

    /// Deletes every item that matches; synchronizable items are deleted on all devices.
    ///
    /// - Parameter query: Which items; it has to ask for synchronizable items explicitly.
    /// - Throws: ``KeychainError``.
    public func delete(_ query: KeychainQuery) async throws {
        try check(query)
        try await write { [entitlements] keychain in
            let rows = try keychain.items(matching: query, entitlements)
            let count = rows.count(where: \.isSynchronizable)
            guard try keychain.count(ofTombstones: true) + count <= KeychainLimits.tombstones else {
                throw KeychainError.full
            }
            for row in rows {
                if row.isSynchronizable {
                    try keychain.edit(row.key, isSynchronizable: true, to: nil)
                } else {
                    try keychain.remove(row.key, isSynchronizable: false)
                }
            }
        }
    }

    /// Removes every item that matches from this device alone.
    ///
    /// A synchronizable item comes back with the next synchronization, if it was ever published. Earlier deletions still reach
    /// the other devices.
    ///
    /// - Parameter query: Which items; it's no error if none match.
    /// - Throws: ``KeychainError``.
    public func blitz(_ query: KeychainQuery) async throws {
        try check(query)
        try await write { [entitlements] keychain in
            try keychain.blitz(
                try keychain.items(matching: query).filter { entitlements.covers($0.key.accessGroup) }
            )
        }
    }

    /// Runs a write transaction on a thread that may block.
    func write<Value: Sendable>(
        _ body: @escaping @Sendable (KeychainTransaction) throws -> Value
    ) async throws -> Value {
        try await runBlocking(on: executor) { [database] in try database.write(body) }
    }

    // MARK: Checks

    private func group(of item: KeychainItem) throws -> String {
        guard let group = item.accessGroup ?? entitlements.defaultAccessGroup else {
            throw KeychainError(
                .notEntitled,
                "The entitlements contain only patterns, so the item has to name its own access group. Give it one."
            )
        }
        try check(group)
        return group
    }

    private func check(_ query: KeychainQuery) throws {
        if let group = query.accessGroup { try check(group) }
    }

    private func check(_ group: String) throws {
        guard entitlements.covers(group) else {
            throw KeychainError(
                .notEntitled,
                """
                The application isn't entitled to the access group \(group.prefix(80).debugDescription). Add it to \
                keychain-access-groups in the entitlements file, or name another.
                """
            )
        }
    }
}

extension KeychainTransaction {
    /// Removes items from this device alone, without leaving tombstones.
    func blitz(_ rows: [StoredItem]) throws {
        for row in rows where !row.isSynchronizable { try remove(row.key, isSynchronizable: false) }
        let synchronizable = rows.filter(\.isSynchronizable).map(\.key)
        guard !synchronizable.isEmpty else { return }
        let former = try replica()
        var replica = former
        replica.blitz(synchronizable, as: UUID())
        try write(replica, insteadOf: former)
    }

    /// The items that match and that the caller is entitled to, at least one.
    fileprivate func items(matching query: KeychainQuery, _ entitlements: Entitlements) throws -> [StoredItem] {
        let items = try items(matching: query).filter { entitlements.covers($0.key.accessGroup) }
        guard !items.isEmpty else { throw KeychainError.itemNotFound }
        return items
    }

    /// Writes an item with a new version; `nil` writes a tombstone.
    fileprivate func edit(_ key: ItemKey, isSynchronizable: Bool, to secret: SecretBytes?) throws {
        var clock = try clock()
        let version: Version =
            isSynchronizable ? .synchronizable(try clock.nextStamp()) : .onThisDevice(try clock.nextVersion())
        try write(secret, key, version)
        try write(clock)
    }
}

extension KeychainError {
    fileprivate static func duplicate(_ key: ItemKey) -> KeychainError {
        KeychainError(
            .duplicateItem,
            """
            An item of the service \(key.service.debugDescription) with the same account and access group already exists. \
            Update it, or delete it first.
            """
        )
    }

    fileprivate static let full = KeychainError(
        .full,
        """
        The keychain holds \(KeychainLimits.items) items, or \(KeychainLimits.tombstones) deletions that not every client \
        knows of. Delete items, and deregister clients that no longer synchronize.
        """
    )
}
