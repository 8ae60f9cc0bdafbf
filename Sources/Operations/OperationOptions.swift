/// How urgent an operation is beside others that could start.
public enum OperationPriority: Int, Sendable, Hashable, Comparable, CaseIterable {
    /// After everything else.
    case veryLow
    /// After ordinary work.
    case low
    /// Ordinary work.
    case normal
    /// Before ordinary work.
    case high
    /// Before everything else.
    case veryHigh

    /// Orders priorities from the least to the most urgent.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// What is said of an operation when it is added.
public struct OperationOptions: Sendable {
    /// What the operation is called in logs and explanations; its type's name where this is `nil`.
    public var name: String?
    /// How urgent it is beside others that could start.
    public var priority: OperationPriority
    /// Anything that whoever adds the operation wants to find with it again.
    public var userInfo: [String: any Sendable]
    /// The synchronization client on whose behalf the operation works, where there is one.
    public var clientIdentifier: String?
    /// Whether the operation may start and go on while the app is in the background.
    public var mayContinueInBackground: Bool

    /// Creates options.
    public init(
        name: String? = nil,
        priority: OperationPriority = .normal,
        userInfo: [String: any Sendable] = [:],
        clientIdentifier: String? = nil,
        mayContinueInBackground: Bool = false
    ) {
        self.name = name
        self.priority = priority
        self.userInfo = userInfo
        self.clientIdentifier = clientIdentifier
        self.mayContinueInBackground = mayContinueInBackground
    }
}
