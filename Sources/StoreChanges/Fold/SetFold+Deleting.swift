// Rule 2: deletes hold if their author knew all inserts of the row.

extension SetFold {
    /// Deletes rows.
    ///
    /// Example: A device deleted a note that another one had edited meanwhile: the note goes, and its last text is
    /// logged. If the other device had inserted a note of the same name, which the author didn't know, the note stays.
    mutating func delete(_ changes: [ResolvedChange]) throws {
        guard changes.contains(where: \.edit.isDelete) else { return }
        let edited = Set(changes.filter { !$0.edit.isDelete }.map(\.row))
        var deletes: [RowReference: DeletedRow] = [:]
        var joined: Set<RowReference> = []
        for change in changes {
            guard case .delete(let deleted) = change.edit else { continue }
            let row = change.row
            guard !schema.isCounted(row) else {
                try markReferences(of: deleted.left, to: row)
                try count(row, -1)
                continue
            }
            let state = try work.row(row)
            if edited.contains(row) {
                log(.editedAndDeleted, row, kept: state?.cells ?? [:])
            } else if change.wentThroughAlias {
                log(.deleteRefused, row, kept: state?.cells ?? [:])
            } else if let state {
                if !state.inserters.allSatisfy(knows) {
                    log(.deleteRefused, row, kept: state.cells)
                } else if deletes[row]?.parents.isEmpty != true {
                    // Of two deletes that reach one row, a delete that needs no parent decides.
                    deletes[row] = try led(deleted)
                }
            } else if var tomb = try work.tomb(row) {
                tomb.deleters.insert(header.id)
                try work.write(row, tomb: tomb)
                joined.insert(row)
            }
        }
        try strikeConsequences(&deletes, joined)
        let gone = Set(deletes.keys)
        for (row, deleted) in deletes {
            for parent in try supporters(of: row, deleted, gone) {
                companions[parent, default: []].insert(row)
            }
            try markReferences(of: deleted.left, to: row)
        }
        for (row, deleted) in deletes.sorted(by: { $0.key < $1.key }) { try delete(row, deleted) }
    }

    private mutating func led(_ deleted: DeletedRow) throws -> DeletedRow {
        var led = deleted
        led.parents = []
        for parent in deleted.parents where schema.tables[parent.table] != nil {
            led.parents.insert(try lead(parent).0)
        }
        // A consequence without a parent that is known here still isn't a delete of its own.
        if led.parents.isEmpty { led.parents = deleted.parents }
        return led
    }

    /// Removes the consequences of deletes that don't hold.
    ///
    /// A consequence holds while the row refers to a deleted parent. Consequences that only support each other hold; so
    /// those without a parent that holds are struck out until none is left.
    private mutating func strikeConsequences(
        _ deletes: inout [RowReference: DeletedRow],
        _ joined: Set<RowReference>
    ) throws {
        let gone = joined.union(deletes.keys)
        var consequences: [RowReference: [RowReference]] = [:]
        var supporterCounts: [RowReference: Int] = [:]
        var struck: [RowReference] = []
        for (row, deleted) in deletes where !deleted.parents.isEmpty {
            let supporters = try supporters(of: row, deleted, gone)
            if supporters.isEmpty { struck.append(row) }
            supporterCounts[row] = supporters.count
            for parent in supporters { consequences[parent, default: []].append(row) }
        }
        while !struck.isEmpty {
            var unsupported: [RowReference] = []
            for row in struck.sorted() {
                deletes[row] = nil
                log(.consequenceRefused, row, kept: try work.row(row)?.cells ?? [:])
                for consequence in consequences[row] ?? [] {
                    supporterCounts[consequence, default: 0] -= 1
                    if supporterCounts[consequence] == 0 { unsupported.append(consequence) }
                }
            }
            struck = unsupported
        }
    }

    /// The deleted parents to which a row refers.
    private mutating func supporters(
        of row: RowReference,
        _ deleted: DeletedRow,
        _ gone: Set<RowReference>
    ) throws -> [RowReference] {
        guard let state = try work.row(row) else { return [] }
        return try deleted.parents.filter { try gone.contains($0) && refers(row, state, to: $0) }
    }

    /// Whether a row refers to another one by a reference with `ON DELETE CASCADE`.
    private mutating func refers(_ row: RowReference, _ state: StoredRow, to parent: RowReference) throws -> Bool {
        guard let parentState = try work.row(parent) ?? work.tomb(parent)?.row else { return false }
        return try schema.table(row.table).references.enumerated().contains { index, reference in
            let id = FoldSchema.ReferenceID(table: row.table, index: index)
            guard reference.parent == parent.table,
                constraints.action(of: reference, of: row.table) == .cascade,
                let key = schema.childKey(id, of: row, state)
            else { return false }
            return key == schema.childKey(id, leadingTo: parent, parentState)
        }
    }

    /// Marks the references to a row that its author's delete left, where they still lead to it.
    ///
    /// Example: An app that doesn't enforce foreign keys deletes a folder, and leaves its notes. The notes stay, and the folder
    /// doesn't come back for them.
    private mutating func markReferences(of children: Set<RowReference>, to row: RowReference) throws {
        guard !children.isEmpty, let state = try work.row(row) else { return }
        let incoming = try schema.table(row.table).incoming
        for child in children where schema.has(child) {
            let child = try lead(child).0
            guard let childState = try work.row(child) else { continue }
            for id in incoming where id.table == child.table {
                guard let key = schema.childKey(id, of: child, childState),
                    key == schema.childKey(id, leadingTo: row, state)
                else { continue }
                try trace(child)
                let columns = try schema.table(child.table).references[id.index].key.columns
                traces[child]?.dangling.formUnion(columns)
            }
        }
    }

    private mutating func delete(_ row: RowReference, _ deleted: DeletedRow) throws {
        guard let state = try work.row(row) else { return }
        if imageDigest(of: row, state) != deleted.image { log(.deletedEdited, row, lost: state.cells) }
        try bury(row)
    }
}
