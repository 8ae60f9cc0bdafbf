import OperationsTesting
import StoreChanges

/// A random history of several clients, each of which edits the fold of the sets that it knows.
struct RandomHistory {
    /// A client with the last set that it knows of each client.
    private struct Client {
        var id: ClientID
        var known: [ClientID: UInt64] = [:]
        var rows: Int64 = 0
    }

    private(set) var sets: [SyncChangeSet] = []
    /// For each text that an edit wrote: the sets whose authors knew it and removed it.
    private(set) var removals: [[UInt8]: [SetID]] = [:]
    private var clients: [Client]
    private var generator: SplitMix64
    private let oracle: Oracle
    private var texts = 0

    init(_ oracle: Oracle, seed: UInt64) throws {
        self.oracle = oracle
        generator = SplitMix64(seed: seed)
        let count = Int.random(in: 2...4, using: &generator)
        clients = ["A", "B", "C", "D"].prefix(count).map { Client(id: ClientID(rawValue: $0)) }
        // Without rows that all clients know, most edits are inserts.
        try capture(0, edits: 12)
        for index in clients.indices { clients[index].known = clients[0].known }
        for _ in 0..<Int.random(in: 5...14, using: &generator) {
            let client = Int.random(in: clients.indices, using: &generator)
            if generator.chance(30) {
                let other = Int.random(in: clients.indices, using: &generator)
                clients[client].known.merge(clients[other].known) { max($0, $1) }
            } else {
                try capture(client, edits: Int.random(in: 1...6, using: &generator))
            }
        }
    }

    // MARK: Sets

    private func knownSets(of client: Client) -> [SyncChangeSet] {
        sets.filter { $0.header.id.sequence <= client.known[$0.header.id.client] ?? 0 }
    }

    private mutating func capture(_ index: Int, edits: Int) throws {
        let known = knownSets(of: clients[index])
        let base = try oracle.fold(known, over: StateContent()).content
        var after = base
        for _ in 0..<edits {
            var edited = after
            edit(&edited, index)
            if view(edited).isConsistent { after = edited }
        }
        let changes = differences(from: base, to: after)
        if changes.isEmpty { return }
        let id = clients[index].id
        let sequence = (clients[index].known[id] ?? 0) + 1
        let stamp = (known.map(\.header.stamp.rawValue).max() ?? 0) + UInt64.random(in: 1...4, using: &generator)
        let seen = clients[index].known.filter { $0.key != id }.mapValues { SeenSet($0, .none) }
        let header = SyncChangeSet.Header(
            id: SetID(id, sequence),
            predecessor: .none,
            stamp: Stamp(rawValue: stamp),
            seen: seen,
            schema: SchemaVersion(0, .none)
        )
        sets.append(SyncChangeSet(header, changes))
        clients[index].known[id] = sequence
        for text in base.texts.subtracting(after.texts) { removals[text, default: []].append(header.id) }
        for text in after.texts.subtracting(base.texts) where removals[text] == nil { removals[text] = [] }
    }

    private func view(_ content: StateContent) -> Oracle.Integration {
        let header = SyncChangeSet.Header(
            id: SetID(ClientID(rawValue: ""), 0),
            predecessor: .none,
            stamp: Stamp(rawValue: 0),
            seen: [:],
            schema: SchemaVersion(0, .none)
        )
        return Oracle.Integration(oracle, SyncChangeSet(header, []), over: content)
    }

    // MARK: Differences

    private mutating func differences(from base: StateContent, to after: StateContent) -> [Change] {
        var changes: [Change] = []
        for row in Set(base.rows.keys).union(after.rows.keys).sorted() {
            switch (base.rows[row], after.rows[row]) {
            case (nil, let new?): changes.append(Change(row.table, row.row, .insert(InsertedRow(cells: new.cells))))
            case (let old?, nil):
                let deleted = DeletedRow(image: Oracle.digest(of: old.cells), parents: parents(row, base, after))
                changes.append(Change(row.table, row.row, .delete(deleted)))
            case (let old?, let new?) where old.cells != new.cells:
                let cells = new.cells.filter { old.cells[$0.key] != $0.value }.map { column, cell in
                    (column, UpdatedCell(from: OldCell(old.cells[column] ?? .value(.null)), to: cell))
                }
                changes.append(Change(row.table, row.row, .update(Dictionary(uniqueKeysWithValues: cells))))
            default: break
            }
        }
        for row in Set(base.counts.keys).union(after.counts.keys).sorted() {
            let difference = (after.counts[row] ?? 0) - (base.counts[row] ?? 0)
            let edit = difference > 0 ? Edit.insert(InsertedRow(cells: [:])) : .delete(DeletedRow(image: .none))
            changes += (0..<abs(difference)).map { _ in Change(row.table, row.row, edit) }
        }
        // The order of changes in a set means nothing.
        return changes.shuffled(using: &generator)
    }

    /// The deleted parents of which a delete is a consequence.
    private func parents(
        _ row: RowReference,
        _ base: StateContent,
        _ after: StateContent
    ) -> Set<RowReference> {
        let view = view(base)
        guard let image = view.image(row) else { return [] }
        var parents: Set<RowReference> = []
        for key in view.table(row.table).references where key.onDelete == .cascade {
            guard let cells = view.cells(of: key, in: image) else { continue }
            for parent in view.entries(of: key.parent) where view.matches(key, cells, parent.image) {
                if parent.row != row, after.rows[parent.row] == nil { parents.insert(parent.row) }
            }
        }
        return parents
    }

    // MARK: Edits

    private mutating func edit(_ content: inout StateContent, _ client: Int) {
        guard let table = oracle.schema.tables.randomElement(using: &generator) else { return }
        let entries = view(content).entries(of: table.name)
        let entry = entries.randomElement(using: &generator)
        switch (Int.random(in: 0..<10, using: &generator), entry) {
        case (0..<4, _), (_, nil): insert(into: table, &content, client)
        case (4..<7, let entry?): update(entry, table, &content)
        case (_, let entry?): delete(entry.row, &content)
        }
    }

    private mutating func insert(into table: TableSchema, _ content: inout StateContent, _ client: Int) {
        var image: [String: Cell] = [:]
        for column in table.sortedColumns { image[column] = cell(of: column, in: table, content) }
        for key in table.references { refer(key, &image, table, content) }
        if case .integer(let column) = table.key, !table.references.contains(where: { $0.columns.contains(column) }) {
            clients[client].rows += 1
            image[column] = .row(.numbered(client: clients[client].id, number: clients[client].rows))
        }
        guard let name = table.name(of: image) else {
            if case .integer = table.key { return }
            content.counts[RowReference(table.name, table.countedName(of: image)), default: 0] += 1
            return
        }
        let row = RowReference(table.name, name)
        guard content.rows[row] == nil else { return }
        let cells = image.filter { !table.key.columns.contains($0.key) }
        content.rows[row] = RowState(cells: cells, inserters: [])
    }

    private mutating func update(
        _ entry: Oracle.Integration.Entry,
        _ table: TableSchema,
        _ content: inout StateContent
    ) {
        var image = entry.image
        guard let column = table.valueColumns.randomElement(using: &generator) else { return }
        image[column] = cell(of: column, in: table, content)
        for key in table.references where key.columns.contains(column) { refer(key, &image, table, content) }
        if entry.isCounted {
            removeOne(entry.row, &content)
            let name = table.name(of: image) ?? table.countedName(of: image)
            if table.isCounted(name) { content.counts[RowReference(table.name, name), default: 0] += 1 }
            return
        }
        guard table.name(of: image) == entry.row.row else { return }
        content.rows[entry.row]?.cells = image.filter { !table.key.columns.contains($0.key) }
        updateChildren(of: entry, with: image, &content)
    }

    /// What `ON UPDATE CASCADE` does.
    private func updateChildren(
        of parent: Oracle.Integration.Entry,
        with image: [String: Cell],
        _ content: inout StateContent
    ) {
        let view = view(content)
        for table in oracle.schema.tables {
            for key in table.references where key.parent == parent.row.table {
                for child in view.entries(of: table.name) where !child.isCounted {
                    guard let cells = view.cells(of: key, in: child.image), view.matches(key, cells, parent.image),
                        view.dangles(key, child.image)
                    else { continue }
                    for (column, parentColumn) in zip(key.columns, key.parentColumns)
                    where !table.key.columns.contains(column) {
                        content.rows[child.row]?.cells[column] = image[parentColumn] ?? .value(.null)
                    }
                }
            }
        }
    }

    /// Deletes a row and does what the references to it say; the caller discards what they refuse.
    private func delete(_ row: RowReference, _ content: inout StateContent) {
        guard let image = view(content).image(row) else { return }
        if !removeOne(row, &content) { content.rows[row] = nil }
        for table in oracle.schema.tables {
            for key in table.references where key.parent == row.table {
                let current = view(content)
                for child in current.entries(of: table.name) {
                    guard let cells = current.cells(of: key, in: child.image), current.matches(key, cells, image) else {
                        continue
                    }
                    if key.onDelete == .cascade { delete(child.row, &content) }
                    guard key.onDelete == .setNull, !child.isCounted else { continue }
                    for column in key.columns { content.rows[child.row]?.cells[column] = .value(.null) }
                }
            }
        }
    }

    @discardableResult
    private func removeOne(_ row: RowReference, _ content: inout StateContent) -> Bool {
        guard let count = content.counts[row] else { return false }
        content.counts[row] = count > 1 ? count - 1 : nil
        return true
    }

    // MARK: Cells

    /// A cell for a column: a text that occurs only once in the history, unless the column needs values that clash.
    private mutating func cell(
        of column: String,
        in table: TableSchema,
        _ content: StateContent
    ) -> Cell {
        if table.column(column)?.affinity == .integer {
            return .value(.integer(Int64.random(in: 1...3, using: &generator)))
        }
        let isShared = table.uniques.flatMap(\.sortedNames).contains(column) || table.key.columns.contains(column)
        if isShared || table.key == .none {
            if table.column(column)?.isNotNull == false, generator.chance(10) { return .value(.null) }
            return .value(.text(["a", "b", "c", "A"].randomElement(using: &generator) ?? ""))
        }
        texts += 1
        return .value(.text("text \(texts)"))
    }

    private mutating func refer(
        _ key: ForeignKey,
        _ image: inout [String: Cell],
        _ table: TableSchema,
        _ content: StateContent
    ) {
        let isNullable = key.columns.allSatisfy {
            table.column($0)?.isNotNull == false && !table.key.columns.contains($0)
        }
        let parent = view(content).entries(of: key.parent).randomElement(using: &generator)
        for (column, parentColumn) in zip(key.columns, key.parentColumns) {
            let isNull = parent == nil || isNullable && generator.chance(20)
            image[column] = isNull ? .value(.null) : parent?.image[parentColumn] ?? .value(.null)
        }
    }
}

extension Oracle.Integration {
    /// Whether no unique value occurs twice, every reference leads to a row, and no column holds a forbidden `NULL`.
    var isConsistent: Bool { firstClash() == nil && danglingReferences.isEmpty && forbiddenNulls.isEmpty }

    var danglingReferences: [String] {
        oracle.schema.tables.flatMap { table in
            table.references.flatMap { key in
                entries(of: table.name).filter { dangles(key, $0.image) }
                    .map { "\(table.name) \($0.row.row) \(key.description)" }
            }
        }
    }

    var forbiddenNulls: [String] {
        oracle.schema.tables.flatMap { table in
            table.columns.filter(\.isNotNull).flatMap { column in
                entries(of: table.name).filter { $0.image[column.name]?.isNull != false }
                    .map { "\(table.name) \($0.row.row) \(column.name)" }
            }
        }
    }
}

extension StateContent {
    /// The texts of the history that the rows hold.
    var texts: Set<[UInt8]> { Set(rows.values.flatMap(\.cells.values).compactMap(\.historyText)) }
}

extension Cell {
    /// The text, if it occurs only once in a history.
    var historyText: [UInt8]? {
        guard case .value(.text(let text)) = self, text.starts(with: "text ".utf8) else { return nil }
        return text
    }
}
