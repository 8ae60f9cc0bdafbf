#if canImport(Security)
import Foundation
import Security
public import SyncCryptography
import ThreadSupport

/// The system's keychain, where Security.framework exists.
///
/// The system unlocks it, enforces entitlements by the code signature and carries synchronizable items to the user's other
/// devices by iCloud. This module does none of that. On macOS it's the data protection keychain, as on iOS.
///
/// Items can be read once the device was unlocked after its start, so in the background too. Items that aren't synchronizable
/// never leave the device, not even with its backup.
public actor SecurityKeychain: KeychainServices {
    /// An attribute dictionary for one call.
    private typealias Attributes = [CFString: Any]

    private let executor: (any TaskExecutor)?

    /// Creates access to the system's keychain.
    ///
    /// - Parameter executor: The executor for blocking calls; dedicated threads if it's `nil`.
    public init(executor: (any TaskExecutor)? = nil) {
        self.executor = executor
    }

    /// Adds an item.
    ///
    /// - Parameters:
    ///   - secret: The secret.
    ///   - item: Its attributes; an item without an access group goes into the application's first.
    /// - Returns: The attributes, with the access group.
    /// - Throws: ``KeychainError``.
    @discardableResult
    public func add(_ secret: SecretBytes, as item: KeychainItem) async throws -> KeychainItem {
        // The limits are the same on every system, so that every item can be stored on another system.
        _ = try ItemKey(service: item.service, account: item.account, accessGroup: item.accessGroup ?? "default")
        try KeychainLimits.check(secret)
        return try await runBlocking(on: executor) { try Self.add(secret, as: item) }
    }

    /// Finds all items that match, in every access group that the caller is entitled to.
    ///
    /// An item that another process deletes at the same time may be left out.
    ///
    /// - Parameter query: Which items.
    /// - Returns: The items with their secrets, at least one, in the order of groups, services and accounts.
    /// - Throws: ``KeychainError``.
    public func copyMatching(_ query: KeychainQuery) async throws -> [KeychainMatch] {
        try await runBlocking(on: executor) {
            let matches = try Self.items(matching: query).compactMap { item -> KeychainMatch? in
                // One by one: macOS doesn't return the secrets of several items at once.
                do throws(KeychainError) {
                    return KeychainMatch(item: item, secret: try Self.secret(of: item))
                } catch  where error.code == .itemNotFound {
                    return nil
                }
            }
            guard !matches.isEmpty else { throw KeychainError.itemNotFound }
            return matches
        }
    }

    /// Replaces the secret of every item that matches.
    ///
    /// - Parameters:
    ///   - query: Which items.
    ///   - secret: The new secret.
    /// - Throws: ``KeychainError``.
    public func update(_ query: KeychainQuery, to secret: SecretBytes) async throws {
        try KeychainLimits.check(secret)
        try await runBlocking(on: executor) {
            let change = [kSecValueData: Self.data(secret)] as CFDictionary
            try Self.check(SecItemUpdate(Self.attributes(query) as CFDictionary, change))
        }
    }

    /// Deletes every item that matches; synchronizable items are deleted on all devices.
    ///
    /// - Parameter query: Which items; it has to ask for synchronizable items explicitly.
    /// - Throws: ``KeychainError``.
    public func delete(_ query: KeychainQuery) async throws {
        try await runBlocking(on: executor) {
            try Self.check(SecItemDelete(Self.attributes(query) as CFDictionary))
        }
    }

    /// Removes the matching items that are on this device alone.
    ///
    /// Synchronizable items stay: the system can't remove them here without deleting them on all devices.
    ///
    /// - Parameter query: Which items; it's no error if none match.
    /// - Throws: ``KeychainError``.
    public func blitz(_ query: KeychainQuery) async throws {
        guard query.synchronizable != .yes else { return }
        var query = query
        query.synchronizable = .absent
        do {
            try await delete(query)
        } catch let error as KeychainError where error.code == .itemNotFound {
            return
        }
    }

    // MARK: The framework

    /// Adds an item, and blocks meanwhile.
    static func add(_ secret: SecretBytes, as item: KeychainItem) throws(KeychainError) -> KeychainItem {
        var attributes = attributes(KeychainQuery(item))
        attributes[kSecValueData] = data(secret)
        // A synchronizable item can't be bound to a device.
        attributes[kSecAttrAccessible] =
            item.isSynchronizable
            ? kSecAttrAccessibleAfterFirstUnlock : kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        attributes[kSecReturnAttributes] = true
        var result: CFTypeRef?
        try check(SecItemAdd(attributes as CFDictionary, &result))
        guard let added = result as? [String: Any], let item = Self.item(added) else { throw unexpected }
        return item
    }

    private static func attributes(_ query: KeychainQuery) -> Attributes {
        var attributes: Attributes = [kSecClass: kSecClassGenericPassword, kSecUseDataProtectionKeychain: true]
        if let service = query.service { attributes[kSecAttrService] = service }
        if let account = query.account { attributes[kSecAttrAccount] = account }
        if let accessGroup = query.accessGroup { attributes[kSecAttrAccessGroup] = accessGroup }
        switch query.synchronizable {
        case .absent: break
        case .yes: attributes[kSecAttrSynchronizable] = true
        case .any: attributes[kSecAttrSynchronizable] = kSecAttrSynchronizableAny
        }
        return attributes
    }

    /// The items that match, in order.
    private static func items(matching query: KeychainQuery) throws -> [KeychainItem] {
        var attributes = attributes(query)
        attributes[kSecMatchLimit] = kSecMatchLimitAll
        attributes[kSecReturnAttributes] = true
        var result: CFTypeRef?
        try check(SecItemCopyMatching(attributes as CFDictionary, &result))
        guard let found = result as? [[String: Any]] else { throw unexpected }
        return found.compactMap { attributes -> (key: ItemKey, item: KeychainItem)? in
            // An item that this program couldn't have added belongs to another program.
            guard let item = item(attributes), let group = item.accessGroup,
                let key = try? ItemKey(service: item.service, account: item.account, accessGroup: group)
            else { return nil }
            return (key, item)
        }.sorted { left, right in
            left.key == right.key ? !left.item.isSynchronizable && right.item.isSynchronizable : left.key < right.key
        }.map(\.item)
    }

    /// Reads an item's secret, and blocks meanwhile.
    static func secret(of item: KeychainItem) throws(KeychainError) -> SecretBytes {
        var attributes = attributes(KeychainQuery(item))
        attributes[kSecReturnData] = true
        var result: CFTypeRef?
        try check(SecItemCopyMatching(attributes as CFDictionary, &result))
        guard let data = result as? Data else { throw unexpected }
        return SecretBytes(copying: data)
    }

    private static func item(_ attributes: [String: Any]) -> KeychainItem? {
        guard let group = attributes[kSecAttrAccessGroup as String] as? String else { return nil }
        return KeychainItem(
            service: attributes[kSecAttrService as String] as? String ?? "",
            account: attributes[kSecAttrAccount as String] as? String ?? "",
            accessGroup: group,
            isSynchronizable: attributes[kSecAttrSynchronizable as String] as? Bool ?? false
        )
    }

    private static func data(_ secret: SecretBytes) -> Data {
        secret.withBytes { Data($0) }
    }

    // MARK: Errors

    private static func check(_ status: OSStatus) throws(KeychainError) {
        let explanation = SecCopyErrorMessageString(status, nil) as String? ?? "no explanation"
        switch status {
        case errSecSuccess: return
        case errSecItemNotFound: throw KeychainError.itemNotFound
        case errSecDuplicateItem:
            throw KeychainError(
                .duplicateItem,
                "An item with these attributes already exists. Update it, or delete it first."
            )
        case errSecMissingEntitlement:
            throw KeychainError(
                .notEntitled,
                "The application isn't entitled to the access group, or isn't signed. Check its entitlements and its signature."
            )
        case errSecInteractionNotAllowed, errSecAuthFailed:
            throw KeychainError(.locked, "The system's keychain is locked. Unlock the device.")
        default:
            throw KeychainError(.unavailable, "The system's keychain answered \(status): \(explanation). Try again.")
        }
    }

    private static let unexpected = KeychainError(
        .unavailable,
        "The system's keychain returned something other than items. Update this program."
    )
}
#endif
