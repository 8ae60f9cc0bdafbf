/// The changes of a void set as they are captured again: without references to rows that are gone.
struct RepeatedChanges {
    private let state: ReplicaState
    /// The schema of the void set, if the store has another one by now.
    private let author: SchemaDescription?

    /// Prepares to repeat changes over a state without the void set.
    init(_ state: ReplicaState, _ author: SchemaDescription?) {
        self.state = state
        self.author = author
    }

    /// Returns the changes of a set that remain.
    ///
    /// - Parameters:
    ///   - set: The set.
    ///   - migrations: If the set was captured together with a change of the schema: the sets that were captured together with
    ///     a change to the same schema, and that the author hadn't seen. What they did to rows without a key is there already.
    /// - Returns: The changes, in the schema of the store.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func changes(
        of set: SyncChangeSet,
        besides migrations: [SyncChangeSet] = []
    ) throws -> [Change] {
        var fold = SetFold(set.header, FoldWorkspace(state, state.schema))
        fold.author = author
        let changes = fold.adapt(fold.withoutRepeatedCounts(set.changes, migrations))
        let made = Set(try changes.flatMap(keys))
        return try changes.compactMap { change in
            let row = change.reference
            guard !state.schema.isCounted(row) else { return change }
            switch change.edit {
            case .delete: return change
            case .insert(var inserted):
                for column in try deadColumns(row, inserted.cells, except: inserted.dangling, made)
                where state.schema.tables[row.table]?.schema.column(column)?.isNotNull == false {
                    inserted.cells[column]? = .null
                }
                return Change(change.table, change.row, .insert(inserted))
            case .update(var cells):
                let dangling = Set(cells.filter(\.value.isDangling).keys)
                let dead = try deadColumns(row, cells.mapValues(\.new), except: dangling, made)
                cells = cells.filter { !dead.contains($0.key) }
                return cells.isEmpty ? nil : Change(change.table, change.row, .update(cells))
            }
        }
    }

    /// The values by which references find the row that a change makes.
    private func keys(of change: Change) throws -> [LookupKey] {
        let row = change.reference
        switch change.edit {
        case .delete: return []
        case .insert(let inserted):
            return state.schema.parentKeys(of: row, StoredRow(try state.schema.table(row.table), inserted.cells))
        case .update(let cells):
            guard var present = try state.row(row) else { return [] }
            present.write(cells.mapValues(\.new))
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
        let all = StoredRow(try schema.table(row.table), present.merging(cells) { $1 })
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
