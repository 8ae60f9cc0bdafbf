/// What one client captured in one synchronization.
public struct SyncChangeSet: Hashable, Sendable {
    /// Everything of a set but its changes.
    public struct Header: Hashable, Sendable {
        /// The set's client and number.
        public var id: SetID
        /// The digest of the client's previous set; zeros in the first one.
        public var predecessor: SetDigest
        /// The time in the total order.
        public var stamp: Stamp
        /// The sets whose effect was in the store, by client: the last one of each.
        public var seen: [ClientID: SeenSet]
        /// The version of the schema that the changes were captured in.
        public var schema: SchemaVersion
        /// Whether the changes were captured together with a change of the schema: an update of the app may have made them.
        public var isMigration = false
        /// The schema itself, if the client's previous set has another one.
        public var schemaDescription: SchemaDescription?

        /// Creates a header.
        public init(
            id: SetID,
            predecessor: SetDigest,
            stamp: Stamp,
            seen: [ClientID: SeenSet],
            schema: SchemaVersion
        ) {
            self.id = id
            self.predecessor = predecessor
            self.stamp = stamp
            self.seen = seen
            self.schema = schema
        }

        /// The set's position in the total order.
        public var position: SetPosition { SetPosition(stamp, id) }

        /// Whether the author of this set knew another set when it captured.
        ///
        /// Example: a client's third set has seen its first one; and those of another client up to the number that its
        /// ``seen`` names.
        public func hasSeen(_ other: SetID) -> Bool {
            other.client == id.client
                ? other.sequence < id.sequence
                : other.sequence <= (seen[other.client]?.sequence ?? 0)
        }
    }

    /// Everything but the changes.
    public var header: Header
    /// The changes, in any order.
    public var changes: [Change]

    /// Creates a change set.
    public init(_ header: Header, _ changes: [Change]) {
        self.header = header
        self.changes = changes
    }
}

/// The last set of a client whose effect was in a store.
public struct SeenSet: Hashable, Sendable {
    /// The set's number.
    public var sequence: UInt64
    /// The set's digest, which tells two sets of one number apart.
    public var digest: SetDigest

    /// Creates a reference.
    public init(_ sequence: UInt64, _ digest: SetDigest) {
        self.sequence = sequence
        self.digest = digest
    }
}

/// BLAKE2b-256 of a change set's bytes.
public struct SetDigest: RawRepresentable, Hashable, Sendable {
    /// How many bytes a digest has.
    public static let byteCount = 32
    /// The predecessor of a client's first set.
    public static let none = SetDigest(rawValue: [UInt8](repeating: 0, count: byteCount))

    /// The 32 bytes.
    public let rawValue: [UInt8]

    /// Creates a digest from 32 bytes.
    public init(rawValue: [UInt8]) {
        precondition(rawValue.count == Self.byteCount, "a digest has 32 bytes, not \(rawValue.count)")
        self.rawValue = rawValue
    }
}

/// The version of a schema: changes to a schema count up, and two schemas of one number differ in their digest.
public struct SchemaVersion: Hashable, Sendable {
    /// The greatest number that is well-formed; all schemas after it have it too.
    static let maximumNumber: UInt64 = 1 << 62

    /// Counts up with every change.
    public var number: UInt64
    /// BLAKE2b-256 of the schema's canonical form.
    public var digest: SetDigest

    /// Creates a version.
    public init(_ number: UInt64, _ digest: SetDigest) {
        self.number = number
        self.digest = digest
    }
}

/// One edit of one row.
public struct Change: Hashable, Sendable {
    /// The table's name.
    public var table: String
    /// The row.
    public var row: RowName
    /// The edit.
    public var edit: Edit

    /// Creates a change.
    public init(_ table: String, _ row: RowName, _ edit: Edit) {
        self.table = table
        self.row = row
        self.edit = edit
    }
}

extension Change {
    /// The row, with its table.
    var reference: RowReference { RowReference(table, row) }
}

/// What happened to a row.
public enum Edit: Hashable, Sendable {
    /// The row is new.
    case insert(InsertedRow)
    /// Some of its cells changed, by the names of their columns.
    case update([String: UpdatedCell])
    /// The row is gone.
    case delete(DeletedRow)
}

/// The content of an inserted row.
public struct InsertedRow: Hashable, Sendable {
    /// The cells by the names of their columns, without an integer key.
    public var cells: [String: Cell]
    /// The number that an integer key has in its author's store; other replicas use it too if it's free there.
    public var wish: Int64?
    /// The columns whose references led to no row in the author's store.
    public var dangling: Set<String>

    /// Creates the content of a row.
    public init(cells: [String: Cell], wish: Int64? = nil, dangling: Set<String> = []) {
        self.cells = cells
        self.wish = wish
        self.dangling = dangling
    }
}

/// The change of one cell.
public struct UpdatedCell: Hashable, Sendable {
    /// What the cell holds now.
    public var new: Cell
    /// What it held before.
    public var old: OldCell
    /// Whether its reference led to no row in the author's store.
    public var isDangling: Bool
    /// Whether the new value puts back what the author's last synchronization replaced.
    public var putsBack: Bool

    /// Creates the change of a cell.
    public init(from old: OldCell, to new: Cell, isDangling: Bool = false, putsBack: Bool = false) {
        self.new = new
        self.old = old
        self.isDangling = isDangling
        self.putsBack = putsBack
    }
}

/// What a cell held before: what is large is given by its digest, because it's only compared.
public enum OldCell: Hashable, Sendable {
    /// A reference, or a value whose encoded form has at most 32 bytes.
    case cell(Cell)
    /// BLAKE2b-256 of the encoded form of a larger value.
    case digest(SetDigest)
}

/// What is known of a deleted row.
public struct DeletedRow: Hashable, Sendable {
    /// BLAKE2b-256 of the row's cells outside the key before it was deleted.
    public var image: SetDigest
    /// The deleted rows that it referred to with `ON DELETE CASCADE`; if there are any, its delete is their consequence.
    public var parents: Set<RowReference>
    /// The rows that still referred to it in the author's store, because the app doesn't enforce foreign keys.
    public var left: Set<RowReference>

    /// Creates a description.
    public init(image: SetDigest, parents: Set<RowReference> = [], left: Set<RowReference> = []) {
        self.image = image
        self.parents = parents
        self.left = left
    }
}

/// A row of a table.
public struct RowReference: Hashable, Sendable, Comparable {
    /// The table's name.
    public var table: String
    /// The row.
    public var row: RowName

    /// Creates a reference.
    public init(_ table: String, _ row: RowName) {
        self.table = table
        self.row = row
    }

    /// Compares the tables' names byte by byte, then the rows' names.
    public static func < (lhs: RowReference, rhs: RowReference) -> Bool {
        lhs.table == rhs.table ? lhs.row < rhs.row : lhs.table.utf8.lexicographicallyPrecedes(rhs.table.utf8)
    }
}

extension RowReference {
    /// Whether a row was probably inserted before another one, so that it's before it in a store too.
    func comesBefore(_ other: RowReference) -> Bool {
        guard table == other.table, case .numbered(let client, let number) = row,
            case .numbered(let otherClient, let otherNumber) = other.row, client == otherClient
        else { return self < other }
        return number < otherNumber
    }
}
