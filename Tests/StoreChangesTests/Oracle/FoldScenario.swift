import StoreChanges
import Testing

/// A history with what its fold must give, for every implementation of the fold.
struct FoldScenario: Sendable, CustomTestStringConvertible {
    var title: String
    var schema: String
    var rules = SyncRules.none
    /// The rows that violate a `CHECK`, by table: SQL can't say it, because schemas don't carry expressions yet.
    var violations: [String: @Sendable ([String: Cell]) -> Bool] = [:]
    /// What partial indexes have for a row.
    var indexKey: (@Sendable (UniqueIndex, String, [String: Cell]) -> [Cell]?)?
    var sets: [SyncChangeSet]
    /// The rows, as ``FoldOutcome`` describes them.
    var rows: [String]
    var tombs: [String] = []
    var aliases: [String]?
    /// The rule of each conflict with its row, in any order.
    var conflicts: [String] = []
    /// What a conflict's entry must hold, by its rule.
    var lost: [Conflict.Rule: String] = [:]

    var testDescription: String { title }
}

/// The result of a fold in words that tests can compare and people can read.
struct FoldOutcome: Equatable {
    /// `note A#1 body='x' folder=→A#2`; equal rows of a table without a key as `log ('x') ×2`.
    var rows: [String]
    /// `note A#1`.
    var tombs: [String]
    /// `note A#2 → A#1`, and `tag name='x' → A#1` for a former value.
    var aliases: [String]
    /// `merged note A#2`.
    var conflicts: [String]
    var lost: [Conflict.Rule: [String]]

    init(_ content: StateContent, _ conflicts: [Conflict]) {
        let rows = content.rows.map { "\($0.key.table) \($0.key.row)\(Self.text($0.value.cells))" }
        let counts = content.counts.map { "\($0.key.table) \($0.key.row) ×\($0.value)" }
        self.rows = (rows + counts).sorted(by: bytewise)
        tombs = content.tombs.keys.map { "\($0.table) \($0.row)" }.sorted(by: bytewise)
        aliases = content.aliases.map { key, alias in
            let cells = zip(key.columns, key.cells).map { "\($0)=\($1)" }.joined(separator: " ")
            return "\(key.table) \(cells) → \(alias.row)"
        }.sorted(by: bytewise)
        self.conflicts = conflicts.map { "\($0.rule.rawValue) \($0.row.table) \($0.row.row)" }.sorted(by: bytewise)
        lost = Dictionary(grouping: conflicts, by: \.rule).mapValues { entries in
            entries.map { Self.text($0.lost).dropFirst() + " / " + Self.text($0.kept).dropFirst() }
        }
    }

    private static func text(_ cells: [String: Cell]) -> String {
        cells.sorted { bytewise($0.key, $1.key) }.map { " \($0.key)=\($0.value)" }.joined()
    }
}

// MARK: Values

/// A cell written as a literal: `"x"`, `1`, `nil`, or `.to("A#1")`.
enum TestCell: Hashable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByNilLiteral {
    case cell(Cell)

    init(stringLiteral text: String) { self = .cell(.value(.text(text))) }
    init(integerLiteral number: Int64) { self = .cell(.value(.integer(number))) }
    init(nilLiteral: ()) { self = .cell(.value(.null)) }

    static func to(_ name: TestName) -> TestCell { .cell(.row(name.name)) }
    static func real(_ number: Double) -> TestCell { .cell(.value(.real(number))) }

    var cell: Cell {
        switch self {
        case .cell(let cell): cell
        }
    }
}

/// A row's name written as a literal: `"A#1"` for a numbered row, `["x", 1]` for a key.
struct TestName: Hashable, ExpressibleByStringLiteral, ExpressibleByArrayLiteral {
    var name: RowName

    init(stringLiteral text: String) {
        let parts = text.split(separator: "#")
        let client = ClientID(rawValue: String(parts.first ?? ""))
        name = .numbered(client: client, number: parts.last.flatMap { Int64($0) } ?? 0)
    }

    init(arrayLiteral cells: TestCell...) { name = .key(cells.map(\.cell)) }
}

/// The change of a cell, with its marks.
struct TestUpdate {
    var cell: UpdatedCell

    static func from(
        _ old: TestCell,
        to new: TestCell,
        dangling: Bool = false,
        puttingBack: Bool = false
    ) -> TestUpdate {
        let cell = UpdatedCell(from: OldCell(old.cell), to: new.cell, isDangling: dangling, putsBack: puttingBack)
        return TestUpdate(cell: cell)
    }
}

// MARK: Changes and sets

extension Change {
    static func insert(
        _ table: String,
        _ name: TestName,
        _ cells: [String: TestCell] = [:],
        dangling: Set<String> = []
    ) -> Change {
        Change(table, name.name, .insert(InsertedRow(cells: cells.mapValues(\.cell), dangling: dangling)))
    }

    static func update(_ table: String, _ name: TestName, _ cells: [String: TestUpdate]) -> Change {
        Change(table, name.name, .update(cells.mapValues(\.cell)))
    }

    /// A delete of a row that its author knew with certain cells: maybe a consequence, and maybe with references that stayed.
    static func delete(
        _ table: String,
        _ name: TestName,
        knowing cells: [String: TestCell] = [:],
        with parents: [(String, TestName)] = [],
        leaving left: [(String, TestName)] = []
    ) -> Change {
        func references(_ rows: [(String, TestName)]) -> Set<RowReference> {
            Set(rows.map { RowReference($0.0, $0.1.name) })
        }
        let image = Oracle.digest(of: cells.mapValues(\.cell))
        let deleted = DeletedRow(image: image, parents: references(parents), left: references(left))
        return Change(table, name.name, .delete(deleted))
    }
}

extension SyncChangeSet {
    /// The set with one change more.
    func adding(_ change: Change) -> SyncChangeSet {
        var set = self
        set.changes.append(change)
        return set
    }

    /// The set as if it was captured together with a change of the schema.
    var migrating: SyncChangeSet {
        var set = self
        set.header.isMigration = true
        return set
    }

    /// A set, with the last set that its author had seen of each other client.
    static func by(
        _ client: String,
        _ sequence: UInt64,
        at stamp: UInt64,
        seeing seen: [String: UInt64] = [:],
        _ changes: Change...
    ) -> SyncChangeSet {
        let header = Header(
            id: SetID(ClientID(rawValue: client), sequence),
            predecessor: .none,
            stamp: Stamp(rawValue: stamp),
            seen: Dictionary(
                uniqueKeysWithValues: seen.map { (ClientID(rawValue: $0.key), SeenSet($0.value, .none)) }
            ),
            schema: SchemaVersion(0, .none)
        )
        return SyncChangeSet(header, changes)
    }
}
