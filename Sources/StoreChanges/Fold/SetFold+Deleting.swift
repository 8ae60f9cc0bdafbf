// Rule 2: deletes hold if their author knew all inserts of the row.

extension SetFold {
    /// Deletes rows.
    ///
    /// Example: A device deleted a note that another one had edited meanwhile: the note goes, and its last text is
    /// logged. If the other device had inserted a note of the same name, which the author didn't know, the note stays.
    mutating func delete(_ changes: [ResolvedChange]) throws {
        var deletes: [RowReference: DeletedRow] = [:]
        for change in changes {
            guard case .delete(let deleted) = change.edit else { continue }
            if schema.isCounted(change.row) {
                try count(change.row, -1)
                continue
            }
            guard let state = try work.row(change.row) else {
                try joinDeleters(of: change.row)
                continue
            }
            guard !change.wentThroughAlias, state.inserters.allSatisfy({ knows($0) }) else {
                log(.deleteRefused, change.row, kept: state.cells)
                continue
            }
            deletes[change.row] = deleted
        }
        try strikeConsequences(&deletes)
        for (row, deleted) in deletes.sorted(by: { $0.key < $1.key }) { try delete(row, deleted) }
    }

    private func knows(_ set: SetID) -> Bool { set == header.id || header.hasSeen(set) }

    private mutating func joinDeleters(of row: RowReference) throws {
        guard var tomb = try work.tomb(row) else { return }
        tomb.deleters.insert(header.id)
        try work.write(row, tomb: tomb)
    }

    /// Removes the consequences of deletes that don't hold.
    ///
    /// A consequence holds while the row refers to a deleted parent. Consequences that only support each other hold; so
    /// those without a parent that holds are struck out until none is left.
    private mutating func strikeConsequences(_ deletes: inout [RowReference: DeletedRow]) throws {
        var struck = true
        while struck {
            struck = false
            for (row, deleted) in deletes.sorted(by: { $0.key < $1.key }) where !deleted.parents.isEmpty {
                guard let state = try work.row(row), try !holds(row, state, deleted, deletes) else { continue }
                deletes[row] = nil
                log(.consequenceRefused, row, kept: state.cells)
                struck = true
            }
        }
    }

    private mutating func holds(
        _ row: RowReference,
        _ state: RowState,
        _ deleted: DeletedRow,
        _ deletes: [RowReference: DeletedRow]
    ) throws -> Bool {
        for parent in deleted.parents where try refers(row, state, to: parent) {
            if deletes[parent] != nil { return true }
            if try work.row(parent) == nil { return true }
        }
        return false
    }

    /// Whether a row refers to another one by a reference with `ON DELETE CASCADE`.
    private mutating func refers(_ row: RowReference, _ state: RowState, to parent: RowReference) throws -> Bool {
        guard let parentState = try work.row(parent) ?? work.tomb(parent)?.row else { return false }
        return try schema.table(row.table).references.enumerated().contains { index, reference in
            let id = FoldSchema.ReferenceID(table: row.table, index: index)
            guard reference.parent == parent.table, reference.key.onDelete == .cascade,
                let key = schema.childKey(id, of: row, state)
            else { return false }
            return key == schema.childKey(id, leadingTo: parent, parentState)
        }
    }

    private mutating func delete(_ row: RowReference, _ deleted: DeletedRow) throws {
        guard let state = try work.row(row) else { return }
        if schema.imageDigest(of: row, state) != deleted.image { log(.deletedEdited, row, lost: state.cells) }
        try bury(row)
        for parent in deleted.parents { companions[parent, default: []].insert(row) }
    }
}

extension FoldSchema {
    /// The digest of all cells of a row, by which a delete tells whether its author knew them.
    package func imageDigest(of row: RowReference, _ state: RowState) -> SetDigest {
        var writer = ByteWriter()
        writer.name(row.row)
        for (column, cell) in state.cells.sorted(by: { $0.key.precedes($1.key) }) {
            writer.text(column)
            writer.cell(cell)
        }
        return SetDigest(of: writer.bytes)
    }
}
