/// The name of a row, the same in every replica.
///
/// Integers that SQLite assigns can't name a row: two devices assign the same one to different rows. So a row with an
/// integer key is named by the client that inserted it and a number that this client uses once. A copy of the client's device
/// uses that number for no other row: part of it is a digest.
public indirect enum RowName: Hashable, Sendable {
    /// The row with an integer key that a client inserted; every replica maps it to an integer of its own.
    case numbered(client: ClientID, number: Int64)
    /// The values of the key's columns, in the order of their names; of all columns in a table without a key.
    case key([Cell])
}

extension RowName {
    /// The lowest bits of a number, which are of a digest.
    private static let digestBits: Int64 = 28
    /// No device gets above this by counting, but a storage may claim it.
    static let greatestCounter: Int64 = 1 << 33

    /// The number in the name of a row.
    ///
    /// - Parameters:
    ///   - counter: Counts the rows that the client inserted.
    ///   - digest: A digest of what tells the row from rows of a copy of the client's device.
    /// - Returns: The number: the counter, and in the lowest 28 bits the first of the digest, so that later rows have greater ones.
    static func number(counter: Int64, _ digest: SetDigest) -> Int64 {
        let first = digest.rawValue.prefix(4).reduce(0 as Int64) { $0 << 8 | Int64($1) }
        return counter << digestBits | first >> 4
    }

    /// The counter in the number of a name.
    static func counter(in number: Int64) -> Int64 { number >> digestBits }
}

/// What a column of a row holds.
public enum Cell: Hashable, Sendable {
    /// A value as SQLite stores it.
    case value(StoredValue)
    /// The row with an integer key that the column refers to.
    case row(RowName)

    static let null = Cell.value(.null)

    /// Whether the cell is `NULL`.
    public var isNull: Bool { self == .null }
}

/// A client's identifier.
public struct ClientID: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The identifier, as the remote's files have it.
    public let rawValue: String

    /// Creates an identifier; the caller has checked that it is one.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The client that inserted the rows of a document's first baseline: none, so the name is a short one.
    public static let origin = ClientID(rawValue: "0")

    /// The identifier.
    public var description: String { rawValue }
}

extension ClientID: Comparable {
    /// Compares the identifiers byte by byte, which is the same on every platform.
    public static func < (lhs: ClientID, rhs: ClientID) -> Bool {
        lhs.rawValue.utf8.lexicographicallyPrecedes(rhs.rawValue.utf8)
    }
}

extension RowName: Comparable {
    /// Compares the names' bytes in change sets.
    public static func < (lhs: RowName, rhs: RowName) -> Bool {
        lhs.encoded.lexicographicallyPrecedes(rhs.encoded)
    }
}

extension RowName: CustomStringConvertible {
    /// The name, for messages: long values are abbreviated.
    public var description: String { text(of: \.description) }

    /// The name, with whole values.
    package var literal: String { text(of: \.literal) }

    fileprivate func text(of value: (StoredValue) -> String) -> String {
        switch self {
        case .numbered(let client, let number): "\(client)#\(number)"
        case .key(let cells): "(\(cells.map { $0.text(of: value) }.joined(separator: ", ")))"
        }
    }
}

extension Cell: CustomStringConvertible {
    /// The cell, for messages.
    public var description: String { text(of: \.description) }

    fileprivate func text(of value: (StoredValue) -> String) -> String {
        switch self {
        case .value(let stored): value(stored)
        case .row(let name): "→" + name.text(of: value)
        }
    }
}
