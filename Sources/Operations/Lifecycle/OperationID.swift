import Synchronization

/// Identifies an operation in this process; operations that were added later have greater identifiers.
public struct OperationID: Hashable, Comparable, Sendable, CustomStringConvertible {
    let rawValue: UInt64

    private static let last = Atomic<UInt64>(0)

    /// An identifier that no operation has.
    static let none = OperationID(rawValue: 0)

    /// The next identifier of the process.
    static func next() -> OperationID {
        OperationID(rawValue: last.add(1, ordering: .relaxed).newValue)
    }

    /// Orders by age, oldest first.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }

    /// The identifier as a number.
    public var description: String { String(rawValue) }
}
