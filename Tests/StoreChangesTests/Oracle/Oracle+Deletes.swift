import StoreChanges

extension Oracle.Integration {
    // MARK: Rule 2, deletes

    /// Deletes rows, as far as the deletes hold.
    mutating func applyDeletes(_ changes: [ResolvedChange]) {
        let edited = Set(changes.filter { !$0.change.isDelete }.map(\.target))
        var holding: [RowReference: DeletedRow] = [:]
        var joined: Set<RowReference> = []
        for resolved in changes {
            guard case .delete(let deleted) = resolved.change.edit else { continue }
            let row = resolved.target
            if table(row.table).isCounted(row.row) {
                markReferences(of: deleted.left, to: row)
                deleteCounted(row)
            } else if edited.contains(row) {
                // "Edits and deletes of one set that meet in one row: the deletes are dropped and logged."
                log(.editedAndDeleted, row, kept: content.rows[row]?.cells ?? [:])
            } else if resolved.isThroughAlias {
                // "[If] it goes through an alias of its own name […], it deletes nothing and is logged."
                log(.deleteRefused, row, kept: content.rows[row]?.cells ?? [:])
            } else if let state = content.rows[row] {
                // "If its author hadn't seen all inserters […], it deletes nothing and is logged."
                if state.inserters.allSatisfy(knows) {
                    // Of two deletes that reach one row, a delete that needs no parent decides.
                    if holding[row]?.parents.isEmpty != true { holding[row] = deleted }
                } else {
                    log(.deleteRefused, row, kept: state.cells)
                }
            } else if content.tombs[row] != nil {
                // "If the row is out already, the author joins the tomb's deleters."
                content.tombs[row]?.deleters.insert(set.header.id)
                joined.insert(row)
            }
        }
        strikeOut(&holding, joined)
        for (row, deleted) in holding.sorted(by: { $0.key < $1.key }) {
            for parent in supporters(of: row, deleted, Set(holding.keys)) {
                dependents[parent, default: []].insert(row)
            }
        }
        for (row, deleted) in holding { markReferences(of: deleted.left, to: row) }
        for (row, deleted) in holding.sorted(by: { $0.key < $1.key }) { delete(row, deleted) }
    }

    // "References that its author's delete left, and that still lead to the row, are marked."
    private mutating func markReferences(of children: Set<RowReference>, to row: RowReference) {
        guard let parent = image(row) else { return }
        for left in children {
            let child = resolved(left).target
            guard let image = image(child) else { continue }
            for key in table(child.table).references where key.parent == row.table {
                guard let cells = cells(of: key, in: image), matches(key, cells, parent) else { continue }
                traces[child, default: Trace()].marked.formUnion(key.columns)
            }
        }
    }

    // "Consequences that support each other hold: those without a parent that holds are struck out until none is
    // left, and logged."
    private mutating func strikeOut(_ holding: inout [RowReference: DeletedRow], _ joined: Set<RowReference>) {
        while true {
            let gone = joined.union(holding.keys)
            let unsupported = holding.filter { row, deleted in
                !deleted.parents.isEmpty && supporters(of: row, deleted, gone).isEmpty
            }
            if unsupported.isEmpty { return }
            for row in unsupported.keys.sorted() {
                holding[row] = nil
                log(.consequenceRefused, row, kept: content.rows[row]?.cells ?? [:])
            }
        }
    }

    // "A consequence of a CASCADE holds only while the row refers to that parent and the parent's delete held
    // (several parents: any […])."
    private func supporters(
        of row: RowReference,
        _ deleted: DeletedRow,
        _ gone: Set<RowReference>
    ) -> Set<RowReference> {
        let parents = deleted.parents.filter { known in oracle.schema.tables.contains { $0.name == known.table } }
            .map { resolved($0).target }
        return Set(parents).intersection(gone).filter { refers(row, to: $0) }
    }

    private func refers(_ row: RowReference, to parent: RowReference) -> Bool {
        guard let child = image(row) else { return false }
        let parentImage = image(parent) ?? content.tombs[parent].map { image(parent, $0.row) } ?? [:]
        return table(row.table).references.contains { key in
            guard key.onDelete == .cascade, key.parent == parent.table else { return false }
            return cells(of: key, in: child).map { matches(key, $0, parentImage) } ?? false
        }
    }

    // "What was edited unknown to the author is logged and the row becomes a tomb."
    private mutating func delete(_ row: RowReference, _ deleted: DeletedRow) {
        guard let state = content.rows.removeValue(forKey: row) else { return }
        if oracle.imageDigest(state.cells) != deleted.image { log(.deletedEdited, row, lost: state.cells) }
        content.tombs[row] = Tomb(row: state, deleters: [set.header.id])
        traces[row] = nil
    }
}

extension Change {
    var isDelete: Bool {
        if case .delete = edit { true } else { false }
    }
}
