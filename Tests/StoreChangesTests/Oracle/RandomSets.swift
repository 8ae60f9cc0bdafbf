import OperationsTesting
import StoreChanges

/// Random sets of few rows and values, which no author's store needs to have held: they meet in every way.
struct RandomSets {
    private var generator: SplitMix64
    private let schema: OracleSchema
    private let clients = ["A", "B", "C"].map { ClientID(rawValue: $0) }
    /// Whether deletes leave references, as those of apps do that don't enforce foreign keys.
    private let leavesReferences: Bool

    init(_ schema: OracleSchema, seed: UInt64, leavesReferences: Bool = false) {
        self.schema = schema
        self.leavesReferences = leavesReferences
        generator = SplitMix64(seed: seed)
    }

    mutating func sets() -> [SyncChangeSet] {
        var counts: [ClientID: UInt64] = [:]
        var sets: [SyncChangeSet] = []
        for stamp in 1...UInt64.random(in: 3...10, using: &generator) {
            guard let client = clients.randomElement(using: &generator) else { return sets }
            var seen: [ClientID: SeenSet] = [:]
            for (other, count) in counts.sorted(by: { $0.key < $1.key }) where other != client {
                let sequence = UInt64.random(in: 0...count, using: &generator)
                if sequence > 0 { seen[other] = SeenSet(sequence, .none) }
            }
            counts[client, default: 0] += 1
            let header = SyncChangeSet.Header(
                id: SetID(client, counts[client] ?? 1),
                predecessor: .none,
                stamp: Stamp(rawValue: stamp),
                seen: seen,
                schema: SchemaVersion(0, .none)
            )
            var changes: [RowReference: Change] = [:]
            for _ in 0..<Int.random(in: 1...5, using: &generator) {
                guard let change = change() else { continue }
                changes[RowReference(change.table, change.row)] = change
            }
            sets.append(SyncChangeSet(header, changes.sorted { $0.key < $1.key }.map(\.value)))
        }
        return sets
    }

    private mutating func change() -> Change? {
        guard let table = schema.tables.randomElement(using: &generator) else { return nil }
        var image: [String: Cell] = [:]
        for column in table.sortedColumns { image[column] = cell(column, of: table) }
        let name = table.name(of: image) ?? table.countedName(of: image)
        let isCounted = table.isCounted(name)
        let cells = isCounted ? [:] : image.filter { !table.key.columns.contains($0.key) }
        switch Int.random(in: 0..<4, using: &generator) {
        case 0, 1: return Change(table.name, name, .insert(InsertedRow(cells: cells)))
        case 2 where !cells.isEmpty:
            var updated: [String: UpdatedCell] = [:]
            for (column, new) in cells.sorted(by: { bytewise($0.key, $1.key) }) where generator.chance(60) {
                let old = OldCell(cell(column, of: table))
                updated[column] = UpdatedCell(from: old, to: new, putsBack: generator.chance(10))
            }
            return Change(table.name, name, .update(updated))
        default:
            let deleted = DeletedRow(image: .none, parents: parents(of: table), left: rowsReferring(to: table))
            return Change(table.name, name, .delete(deleted))
        }
    }

    private mutating func rowsReferring(to parent: TableSchema) -> Set<RowReference> {
        let tables = schema.tables.filter { $0.references.contains { $0.parent == parent.name } }
        guard leavesReferences, generator.chance(70), !tables.isEmpty else { return [] }
        var rows: Set<RowReference> = []
        for _ in 0..<4 {
            guard let table = tables.randomElement(using: &generator) else { continue }
            var image: [String: Cell] = [:]
            for column in table.sortedColumns { image[column] = cell(column, of: table) }
            rows.insert(RowReference(table.name, table.name(of: image) ?? table.countedName(of: image)))
        }
        return rows
    }

    private mutating func parents(of table: TableSchema) -> Set<RowReference> {
        let keys = table.references.filter { $0.onDelete == .cascade }
        guard generator.chance(30), let key = keys.randomElement(using: &generator),
            let parent = schema.tables.first(where: { $0.name == key.parent })
        else { return [] }
        var image: [String: Cell] = [:]
        for column in parent.key.columns { image[column] = cell(column, of: parent) }
        return parent.name(of: image).map { [RowReference(parent.name, $0)] } ?? []
    }

    private mutating func cell(_ column: String, of table: TableSchema) -> Cell {
        let isKey = table.key.columns.contains(column)
        if !isKey, table.column(column)?.isNotNull == false, generator.chance(15) { return .value(.null) }
        if schema.holdsNames(column, of: table.name) {
            let client = clients.randomElement(using: &generator) ?? ClientID(rawValue: "A")
            return .row(.numbered(client: client, number: Int64.random(in: 1...2, using: &generator)))
        }
        if table.column(column)?.affinity == .integer {
            return .value(.integer(Int64.random(in: 1...3, using: &generator)))
        }
        return .value(.text(["a", "b", "c", "A"].randomElement(using: &generator) ?? ""))
    }
}
