/// How urgent an operation is compared with other operations that could start.
public enum OperationPriority: UInt8, Sendable, Hashable, Comparable, CaseIterable {
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

/// Something that only one operation at a time may use: a document, a file, a device.
public struct ExclusionKey: Hashable, Comparable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The key's name.
    public let description: String

    /// Creates a key; keys with the same name are the same key.
    public init(_ name: String) { description = name }
    /// Creates a key from its name.
    public init(stringLiteral name: String) { description = name }

    /// Orders by name.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.description < rhs.description }
}

/// The options of an operation, given when it is added.
public struct OperationOptions: Sendable {
    /// The operation's name in logs and explanations; its type's name where this is `nil`.
    public var name: String?
    /// How urgent the operation is compared with other operations that could start.
    ///
    /// The operations that it waits for become as urgent as it is. ``OperationReference/priority`` changes it later.
    public var priority = OperationPriority.normal
    /// Arbitrary values that the caller attaches to the operation.
    public var userInfo: [String: any Sendable] = [:]
    /// The client on whose behalf the operation works, for logs and explanations, if there is one.
    public var clientIdentifier: String?
    /// Whether the operation may start while the app is in the background, where a started operation continues.
    public var mayContinueInBackground = false

    /// The resources that no other operation of the supervisor may use at the same time.
    ///
    /// Operations with a key in common run in the order in which they were added, whatever their priorities. An operation
    /// keeps its position while it waits for dependencies, pauses or is about to be retried. A child's keys must be among
    /// its parent's; the parent lends them while it doesn't run itself.
    public var keys: Set<ExclusionKey> = []
    /// Joins an operation of the same type and key that hasn't started, instead of running again.
    ///
    /// The operation then has several handles. Each handle cancels only itself; the last one cancels the operation. A join
    /// happens only if the existing operation waits for everything that the new one must wait for. All other options of
    /// the existing operation apply: user info, deadline, whether it may continue in the background.
    ///
    /// Each handle has an identifier of its own. Logs, spans and ``OperationContext/id`` have the operation's.
    ///
    /// All blocks with one output type count as one type: give different blocks different keys. Only `add` of a single
    /// operation or block considers the key.
    public var coalescingKey: String?
    /// Whether and when a failed `main` is called again.
    public var retry: RetryPolicy?
    /// The maximum time from adding the operation to the end of its `main`.
    ///
    /// When it is exceeded, the operation and its children are cancelled. An operation that hasn't started, or whose `main`
    /// then throws `CancellationError`, fails with an ``OperationError`` of the code `deadlineExceeded`. Otherwise it ends as
    /// `main` does. An operation that was cancelled before the deadline ends as cancelled.
    public var deadline: Duration?
    /// How long `main` may run without reporting progress before it counts as stalled; pauses don't count.
    ///
    /// The supervisor's ``OperationSupervisor/Configuration/stallTimeout`` where this is `nil`. Either has no effect if it
    /// isn't positive.
    public var stallTimeout: Duration?
    /// The operation's weight in the supervisor's progress, from 0 to 2⁴⁰; other numbers count as the nearest of these.
    public var progressUnitCount: Int64 = 1
    /// The priority of the task that runs the operation, for the operating system: Swift's form of a quality of service.
    ///
    /// The supervisor's ``OperationSupervisor/Configuration/taskPriority`` where this is `nil`. It has no influence on the
    /// order in which operations start: that is ``priority``. It costs a task for the operation alone.
    public var taskPriority: TaskPriority? {
        get { rawTaskPriority.map(TaskPriority.init(rawValue:)) }
        set { rawTaskPriority = newValue?.rawValue }
    }
    /// The number of ``taskPriority``.
    ///
    /// If options had a `TaskPriority`, the runtime would look up the layout of all of them.
    private(set) var rawTaskPriority: UInt8?
    /// Whether the operation inherits all task-local values of the caller that adds it.
    ///
    /// Tests need this: a failed expectation in the operation is then reported for the running test. It costs a task for
    /// the operation alone. The service context (of spans) is always passed on.
    public var inheritsTaskLocals = false

    /// Creates options; everything can be set afterwards too.
    public init(
        name: String? = nil,
        priority: OperationPriority = .normal,
        userInfo: [String: any Sendable] = [:],
        clientIdentifier: String? = nil,
        mayContinueInBackground: Bool = false,
        keys: Set<ExclusionKey> = [],
        coalescingKey: String? = nil,
        retry: RetryPolicy? = nil,
        deadline: Duration? = nil,
        stallTimeout: Duration? = nil,
        progressUnitCount: Int64 = 1,
        taskPriority: TaskPriority? = nil,
        inheritsTaskLocals: Bool = false
    ) {
        self.name = name
        self.priority = priority
        self.userInfo = userInfo
        self.clientIdentifier = clientIdentifier
        self.mayContinueInBackground = mayContinueInBackground
        self.keys = keys
        self.coalescingKey = coalescingKey
        self.retry = retry
        self.deadline = deadline
        self.stallTimeout = stallTimeout
        self.progressUnitCount = progressUnitCount
        rawTaskPriority = taskPriority?.rawValue
        self.inheritsTaskLocals = inheritsTaskLocals
    }

    /// Creates options in which only the priority may differ from the default.
    ///
    /// For every operation that is added without options: it needs no `TaskPriority`, whose layout the runtime would look up.
    init(onlyPriority: OperationPriority) { priority = onlyPriority }

    /// Whether all options except the priority have their default values.
    var saysNothingButPriority: Bool {
        name == nil && userInfo.isEmpty && clientIdentifier == nil && !mayContinueInBackground && keys.isEmpty
            && coalescingKey == nil && retry == nil && deadline == nil && stallTimeout == nil && progressUnitCount == 1
            && !inheritsTaskLocals && rawTaskPriority == nil
    }
}
