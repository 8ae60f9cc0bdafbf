/// Which items are meant: those that have every attribute that the query names.
///
/// ```swift
/// // What another application of the same team wrote.
/// var query = KeychainQuery(service: "org.example.writer", account: "Full Name")
/// query.accessGroup = "TEAM.shared"
/// ```
public struct KeychainQuery: Hashable, Sendable {
    /// What a query says of synchronizable items.
    public enum Synchronizable: Hashable, Sendable {
        /// Nothing: items of this device alone match.
        case absent
        /// Synchronizable items match and no others.
        case yes
        /// All items match, synchronizable or not.
        case any
    }

    /// The service; `nil` for any.
    public var service: String?
    /// The account; `nil` for any.
    public var account: String?
    /// The access group, as it's written; `nil` for every group that the caller is entitled to.
    public var accessGroup: String?
    /// Whether synchronizable items are meant.
    public var synchronizable: Synchronizable

    /// Every item that the caller is entitled to.
    public static let everything = KeychainQuery(synchronizable: .any)

    /// Creates a query.
    public init(
        service: String? = nil,
        account: String? = nil,
        accessGroup: String? = nil,
        synchronizable: Synchronizable = .absent
    ) {
        self.service = service
        self.account = account
        self.accessGroup = accessGroup
        self.synchronizable = synchronizable
    }

    /// Creates the query that this item alone matches; or its namesakes in other groups, if it names no group.
    public init(_ item: KeychainItem) {
        self.init(
            service: item.service,
            account: item.account,
            accessGroup: item.accessGroup,
            synchronizable: item.isSynchronizable ? .yes : .absent
        )
    }
}
