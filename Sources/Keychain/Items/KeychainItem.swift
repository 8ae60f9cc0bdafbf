public import SyncCryptography

/// The attributes that identify an item of a keychain, as those of a generic password do.
///
/// They aren't secret. A keychain compares them byte by byte. An item and a synchronizable item with equal names are two items.
public struct KeychainItem: Hashable, Sendable {
    /// The purpose of the secret; by convention the identifier of the application that wrote it.
    public var service: String
    /// The account that the secret belongs to, or another name of the secret.
    public var account: String
    /// The access group that shares the item; `nil` adds the item to the application's own group.
    public var accessGroup: String?
    /// Whether the item is on all devices that synchronize the keychain, or on this device alone.
    public var isSynchronizable: Bool

    /// Creates attributes.
    public init(service: String, account: String, accessGroup: String? = nil, isSynchronizable: Bool = false) {
        self.service = service
        self.account = account
        self.accessGroup = accessGroup
        self.isSynchronizable = isSynchronizable
    }
}

/// An item that was found, and its secret.
public struct KeychainMatch: Hashable, Sendable {
    /// The item, with its access group.
    public let item: KeychainItem
    /// The secret.
    public let secret: SecretBytes

    /// Creates a match.
    public init(item: KeychainItem, secret: SecretBytes) {
        self.item = item
        self.secret = secret
    }

    /// Compares the secrets too, in constant time.
    public static func == (left: KeychainMatch, right: KeychainMatch) -> Bool {
        left.item == right.item && left.secret == right.secret
    }

    /// Hashes the item alone.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(item)
    }
}
