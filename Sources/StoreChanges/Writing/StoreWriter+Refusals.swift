import GRDB

/// Rows that the store's constraints refuse, and the rows that wait with them.
extension StoreWriter {
    /// Writes as many rows as the store's constraints allow.
    ///
    /// - Throws: ``RefusedRows`` with all others; `DatabaseError`.
    func collectRefusals<Item>(
        _ items: [Item],
        row: (Item) -> RowReference,
        write: (Item) throws -> Void
    ) throws {
        var refused = RefusedRows(reasons: [:])
        for item in items {
            do {
                try write(item)
            } catch let error as DatabaseError where error.isOfRow {
                refused.reasons[row(item)] = error.message ?? "\(error.resultCode)"
                guard store.isInTransaction else { throw refused }
            }
        }
        guard refused.reasons.isEmpty else { throw refused }
    }

    /// Adds the rows that have to wait with refused ones: so every reference in the store leads where it did, and no row is
    /// tried whose unique values the store still has in a refused row.
    func addingDependents(to reasons: [RowReference: String]) throws -> [RowReference: String] {
        var reasons = reasons
        let waiting = try WaitingRows(pending, state)
        var added = Array(reasons.keys)
        // Each row is asked once which others depend on it.
        while let row = added.popLast() {
            for dependent in try waiting.dependents(of: row) where reasons[dependent] == nil {
                reasons[dependent] = Self.dependsOnRefused
                added.append(dependent)
            }
        }
        return reasons
    }

    private static let dependsOnRefused = "it depends on a row that is refused"
}

/// The pending rows, and which of them can't be written without which others.
private struct WaitingRows {
    private let pending: ReplicaPending
    private let state: ReplicaState
    private var schema: FoldSchema { state.schema }
    /// The rows without a key among them.
    private let counted: Set<RowReference>
    /// The rows that lose values by which references find them in the store, by these values.
    private var losers: [LookupKey: [RowReference]] = [:]

    private typealias Difference = ReplicaPending.Difference

    init(_ pending: ReplicaPending, _ state: ReplicaState) throws {
        (self.pending, self.state) = (pending, state)
        counted = Set(try pending.counted)
        try pending.forEachDifference { noteLoss(of: $0) }
        for row in counted {
            if let difference = try difference(of: row) { noteLoss(of: difference) }
        }
    }

    private mutating func noteLoss(of difference: Difference) {
        guard let former = difference.former else { return }
        let row = difference.row
        let kept = difference.present.map { schema.parentKeys(of: row, $0) } ?? []
        for key in schema.parentKeys(of: row, former) where !kept.contains(key) { losers[key, default: []].append(row) }
    }

    /// A row as the store has it, and as it will be; `nil` if it isn't pending, or the store refuses it.
    private func difference(of row: RowReference) throws -> Difference? {
        guard schema.isCounted(row) else { return try pending.difference(of: row) }
        guard counted.contains(row) else { return nil }
        let stored = StoredRow(countedIn: try schema.table(row.table))
        return Difference(
            row: row,
            former: try pending.baseCount(row) > 0 ? stored : nil,
            present: try state.count(row) ?? 0 > 0 ? stored : nil
        )
    }

    /// The rows that have to wait if the store refuses a row.
    func dependents(of row: RowReference) throws -> [RowReference] {
        guard let difference = try difference(of: row) else { return [] }
        let rows = try rowsReferring(to: difference) + rowsTakingValues(of: row, difference.former)
        return try rows.filter { try self.difference(of: $0) != nil } + parentsLost(by: row, difference.former)
    }

    /// The rows that will refer to what a row isn't yet.
    private func rowsReferring(to difference: Difference) throws -> [RowReference] {
        guard let present = difference.present else { return [] }
        let row = difference.row
        return try schema.table(row.table).incoming.flatMap { id -> [RowReference] in
            let key = schema.childKey(id, leadingTo: row, present)
            guard let key, key != difference.former.flatMap({ schema.childKey(id, leadingTo: row, $0) }) else {
                return []
            }
            return try state.rows(with: key).map { RowReference(id.table, $0) }
        }
    }

    /// The rows that will have unique values which a row has in the store.
    private func rowsTakingValues(of row: RowReference, _ former: StoredRow?) throws -> [RowReference] {
        guard let former else { return [] }
        let uniques = try schema.table(row.table).uniques
        return try uniques.indices.filter { uniques[$0].isPresent }.flatMap { index -> [RowReference] in
            guard let key = try schema.uniqueKey(index, of: row, former) else { return [] }
            return try state.rows(with: key).filter { $0 != row.row }.map { RowReference(row.table, $0) }
        }
    }

    /// The rows to which a row refers in the store, and which it will find there no more.
    private func parentsLost(by row: RowReference, _ former: StoredRow?) throws -> [RowReference] {
        guard let former else { return [] }
        return try schema.table(row.table).references.indices.flatMap { index -> [RowReference] in
            let id = FoldSchema.ReferenceID(table: row.table, index: index)
            let key = schema.childKey(id, of: row, former).flatMap { schema.parentKey(id, $0) }
            return key.flatMap { losers[$0] } ?? []
        }
    }
}
