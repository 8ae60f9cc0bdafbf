/// The changes of a void set as they are captured again: without references to rows that are gone, and without what this
/// device changed once more in a later set that counts.
struct RepeatedChanges {
    private let state: ReplicaState
    /// The columns that later sets of this device wrote, by row; all of them for a deleted or inserted row.
    private var later: [RowReference: Set<String>] = [:]

    /// Prepares to repeat.
    ///
    /// - Parameters:
    ///   - state: The state, without the void set.
    ///   - later: The later sets of this device that count.
    init(_ state: ReplicaState, later: [SyncChangeSet]) {
        self.state = state
        for change in later.flatMap(\.changes) {
            let row = RowReference(change.table, change.row)
            switch change.edit {
            case .update(let cells): self.later[row, default: []].formUnion(cells.keys)
            case .insert, .delete: self.later[row, default: []].formUnion(state.schema.tables[row.table]?.columns ?? [])
            }
        }
    }

    /// Returns the changes of a set that remain.
    func changes(of set: SyncChangeSet) throws -> [Change] {
        let made = Set(try set.changes.flatMap(keys))
        return try set.changes.compactMap { change in
            let row = RowReference(change.table, change.row)
            guard !state.schema.isCounted(row) else { return change }
            switch change.edit {
            case .delete: return later[row] == nil ? change : nil
            case .insert(var inserted):
                for column in try deadColumns(row, inserted.cells, except: inserted.dangling, made)
                where state.schema.tables[row.table]?.schema.column(column)?.isNotNull == false {
                    inserted.cells[column]? = .null
                }
                return Change(change.table, change.row, .insert(inserted))
            case .update(var cells):
                let dangling = Set(cells.filter(\.value.isDangling).keys)
                let dead = try deadColumns(row, cells.mapValues(\.new), except: dangling, made)
                cells = cells.filter { !dead.contains($0.key) && later[row]?.contains($0.key) != true }
                return cells.isEmpty ? nil : Change(change.table, change.row, .update(cells))
            }
        }
    }

    /// The values by which references find the row that a change makes.
    private func keys(of change: Change) throws -> [LookupKey] {
        let row = RowReference(change.table, change.row)
        switch change.edit {
        case .delete: return []
        case .insert(let inserted):
            return state.schema.parentKeys(of: row, RowState(cells: inserted.cells, inserters: []))
        case .update(let cells):
            guard var present = try state.row(row) else { return [] }
            present.cells.merge(cells.mapValues(\.new)) { $1 }
            return state.schema.parentKeys(of: row, present)
        }
    }

    /// The columns of references that lead to rows that neither exist nor have another name by now.
    private func deadColumns(
        _ row: RowReference,
        _ cells: [String: Cell],
        except dangling: Set<String>,
        _ made: Set<LookupKey>
    ) throws -> Set<String> {
        let schema = state.schema
        var dead: Set<String> = []
        let present = try state.row(row)?.cells ?? [:]
        let all = RowState(cells: present.merging(cells) { $1 }, inserters: [])
        for (index, reference) in try schema.table(row.table).references.enumerated()
        where reference.key.columns.contains(where: { cells[$0] != nil })
            && dangling.isDisjoint(with: reference.key.columns)
        {
            let id = FoldSchema.ReferenceID(table: row.table, index: index)
            guard let child = schema.childKey(id, of: row, all), let key = schema.parentKey(id, child),
                case .parent(let columns) = key.kind, !made.contains(key), try state.rows(with: key).isEmpty
            else { continue }
            let former = AliasKey(table: key.table, columns: columns, cells: key.cells)
            if try state.aliases(like: schema.representative(former)).isEmpty { dead.formUnion(reference.key.columns) }
        }
        return dead
    }
}
