public import SyncCryptography

/// The attributes that tell an item of a keychain from every other: a generic password's.
///
/// They are no secret. A keychain compares them byte by byte. An item and its synchronizable namesake are two items.
public struct KeychainItem: Hashable, Sendable {
    /// What the secret is for; by custom the identifier of the application that wrote it.
    public var service: String
    /// Whose secret it is, or which.
    public var account: String
    /// The applications that share it; `nil`, in an item that is added, for the application's own group.
    public var accessGroup: String?
    /// Whether it's on all devices that synchronize the keychain, or on this one alone.
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
