/// A query for the items that have every attribute that it names.
///
/// ```swift
/// // What another application of the same team wrote.
/// var query = KeychainQuery(service: "org.example.writer", account: "Full Name")
/// query.accessGroup = "TEAM.shared"
/// ```
public struct KeychainQuery: Hashable, Sendable {
    /// How a query treats synchronizable items.
    public enum Synchronizable: Hashable, Sendable {
        /// Only items of this device alone match: the query doesn't mention synchronizable items.
        case absent
        /// Only synchronizable items match.
        case yes
        /// All items match, synchronizable or not.
        case any
    }

    /// The service; `nil` for any.
    public var service: String?
    /// The account; `nil` for any.
    public var account: String?
    /// The exact access group, not a pattern; `nil` for every group that the caller is entitled to.
    public var accessGroup: String?
    /// Whether synchronizable items match.
    public var synchronizable: Synchronizable

    /// A query for every item that the caller is entitled to.
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

    /// Creates a query that only this item matches, or items of equal names in every group if it names no group.
    public init(_ item: KeychainItem) {
        self.init(
            service: item.service,
            account: item.account,
            accessGroup: item.accessGroup,
            synchronizable: item.isSynchronizable ? .yes : .absent
        )
    }
}
