/// The position of a change set in the total order, in which every replica applies the sets.
public struct SetPosition: Hashable, Sendable, Comparable {
    /// The set's stamp.
    public var stamp: Stamp
    /// The set.
    public var id: SetID

    /// Creates a position.
    public init(_ stamp: Stamp, _ id: SetID) {
        self.stamp = stamp
        self.id = id
    }

    /// Compares stamp, client and sequence, in this order.
    public static func < (lhs: SetPosition, rhs: SetPosition) -> Bool {
        (lhs.stamp, lhs.id.client, lhs.id.sequence) < (rhs.stamp, rhs.id.client, rhs.id.sequence)
    }
}

/// The identifier of a change set: the client and the number of its set, from 1 without gaps.
public struct SetID: Hashable, Sendable, CustomStringConvertible {
    /// The client that captured the set.
    public var client: ClientID
    /// The number of the set among those of the client.
    public var sequence: UInt64
    /// The greatest number that is well-formed: no client gets there by counting.
    static let maximumSequence: UInt64 = 1 << 62

    /// Creates an identifier.
    public init(_ client: ClientID, _ sequence: UInt64) {
        self.client = client
        self.sequence = sequence
    }

    /// The client and the number.
    public var description: String { "\(client)/\(sequence)" }
}

/// A time of a hybrid logical clock, in milliseconds since 1970.
///
/// It follows the device's clock while that clock is ahead of every stamp that the device has read, and counts up by one
/// otherwise. So an edit that knew another one always has the greater stamp, whatever the clocks say.
public struct Stamp: RawRepresentable, Hashable, Sendable, Comparable {
    /// The milliseconds.
    public var rawValue: UInt64
    /// The greatest stamp that is well-formed, 146 million years from now: no device can capture after it.
    public static let maximum = Stamp(rawValue: 1 << 62)

    /// Creates a stamp.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Compares the milliseconds.
    public static func < (lhs: Stamp, rhs: Stamp) -> Bool { lhs.rawValue < rhs.rawValue }
}
