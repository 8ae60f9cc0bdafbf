import StoreChanges

extension Oracle.Integration {
    /// A reference that leads nowhere.
    struct DanglingReference {
        var child: RowReference
        var key: ForeignKey
        var cells: [Cell]
    }

    // MARK: Search

    // "The first violated reference (by action: RESTRICT, NO ACTION and SET DEFAULT, then SET NULL, then CASCADE; then
    // table, columns, row; only references that this set wrote or whose parent went in it are searched)."
    func firstDanglingReference() -> DanglingReference? {
        for action in 0...2 {
            for table in oracle.schema.tables {
                for key in table.references where key.onDelete.order == action {
                    for entry in entries(of: table.name) where isViolated(key, entry) {
                        guard let cells = cells(of: key, in: entry.image) else { continue }
                        return DanglingReference(child: entry.row, key: key, cells: cells)
                    }
                }
            }
        }
        return nil
    }

    private func isViolated(_ key: ForeignKey, _ entry: Entry) -> Bool {
        guard let cells = cells(of: key, in: entry.image), !isMarked(key, entry.row), dangles(key, entry.image) else {
            return false
        }
        return isWritten(key, entry.row) && !dangledBefore(key, entry.row, cells) || hasParent(key, cells, in: before)
    }

    /// Whether the row had this reference before the set and it led nowhere, so that its author had marked it.
    private func dangledBefore(_ key: ForeignKey, _ row: RowReference, _ cells: [Cell]) -> Bool {
        let former = RowReference(row.table, traces[row]?.formerName ?? row.row)
        guard case .before = traces[row]?.origin ?? .before, let earlier = before.rows[former] else { return false }
        return self.cells(of: key, in: image(former, earlier)) == cells && !hasParent(key, cells, in: before)
    }

    private func isWritten(_ key: ForeignKey, _ row: RowReference) -> Bool {
        traces[row]?.written.isDisjoint(with: key.columns) == false
    }

    // MARK: Repair

    // "References that dangle […] and were written by a set that had seen none of the tomb's deleters, or lost their
    // parent by this set […]. Other dangling references (no tomb among them): the child's change is left out."
    mutating func repair(_ violation: DanglingReference) {
        let (child, key) = (violation.child, violation.key)
        if goesBack(child, for: .reference(key)) { return }
        let tomb = tomb(of: key, violation.cells)
        guard tomb != nil || hasParent(key, violation.cells, in: before) || clearsReturned(key, child) else {
            leaveOut(child)
            return
        }
        switch key.onDelete {
        case .cascade:
            if let tomb { dependents[tomb, default: []].insert(child) }
            takeOut(child, .deletedWithParent)
        case .setNull where allowsNull(key, in: table(child.table)):
            clear(violation)
        case .setNull, .restrict, .noAction, .setDefault:
            if let tomb, bringBack(tomb) { return }
            giveUp(violation)
        }
    }

    /// Whether SET NULL clears the reference of a row that has come back, whose parent the author may know as deleted.
    private func clearsReturned(_ key: ForeignKey, _ child: RowReference) -> Bool {
        guard case .broughtBack? = traces[child]?.origin else { return false }
        return key.onDelete == .setNull && allowsNull(key, in: table(child.table))
    }

    // "SET NULL writes NULL where the column allows it (no NOT NULL, key, CHECK)."
    private func allowsNull(_ key: ForeignKey, in table: TableSchema) -> Bool {
        key.columns.allSatisfy { column in
            table.column(column)?.isNotNull == false && !table.key.columns.contains(column)
                && !table.checks.contains { $0.columns.contains(column) }
        }
    }

    private mutating func clear(_ violation: DanglingReference) {
        let nulls = Dictionary(violation.key.columns.map { ($0, Cell.value(.null)) }) { first, _ in first }
        let lost = Dictionary(zip(violation.key.columns, violation.cells)) { first, _ in first }
        guard let count = content.counts[violation.child], let image = image(violation.child) else {
            log(.referenceCleared, violation.child, lost: lost, kept: nulls)
            rewrite(violation.child, with: nulls)
            return
        }
        for _ in 0..<count { log(.referenceCleared, violation.child, lost: lost, kept: nulls) }
        moveCounted(violation.child, to: image.merging(nulls) { $1 }, writing: violation.key.columns)
    }

    // "[It] brings the parent back from its tomb, with its own missing parents, each row once per set […]; it enters as
    // an inserted row with the tomb's inserters […]; consequences of this set's delete, and what CASCADE took out in this
    // set, come back with it."
    @discardableResult
    private mutating func bringBack(_ row: RowReference) -> Bool {
        guard let tomb = content.tombs[row], returned.insert(row).inserted else { return false }
        let schema = table(row.table)
        content.tombs[row] = nil
        let image = led(image(row, tomb.row), of: schema)
        content.rows[row] = RowState(cells: values(of: image, in: schema), inserters: tomb.row.inserters)
        var trace = Trace()
        trace.origin = .broughtBack(tomb)
        trace.written = Set(image.keys)
        trace.attempts = traces[row]?.attempts ?? [:]
        traces[row] = trace
        log(.broughtBack, row, kept: values(of: image, in: schema))
        for key in schema.references {
            guard let cells = cells(of: key, in: image), dangles(key, image), let parent = self.tomb(of: key, cells)
            else {
                continue
            }
            bringBack(parent)
        }
        for dependent in (dependents[row] ?? []).sorted() { bringBack(dependent) }
        return true
    }

    // "If the parent can't come back: the reference is taken back if this set wrote it, else the child goes out, logged."
    private mutating func giveUp(_ violation: DanglingReference) {
        let (child, key) = (violation.child, violation.key)
        guard isWritten(key, child) else {
            takeOut(child, .takenOut)
            return
        }
        let former = RowReference(child.table, traces[child]?.formerName ?? child.row)
        guard case .before = traces[child]?.origin ?? .before, let state = content.rows[child],
            let earlier = before.rows[former]
        else {
            leaveOut(child)
            return
        }
        let schema = table(child.table)
        let cells = values(of: led(image(former, earlier), of: schema), in: schema)
            .filter { key.columns.contains($0.key) && state.cells[$0.key] != $0.value }
        guard !cells.isEmpty else { return }
        log(.takenBack, child, lost: state.cells.filter { cells[$0.key] != nil }, kept: cells)
        rewrite(child, with: cells)
    }
}

extension ForeignKey.Action {
    /// The actions that bring rows back are repaired before actions that take them away.
    fileprivate var order: Int {
        switch self {
        case .restrict, .noAction, .setDefault: 0
        case .setNull: 1
        case .cascade: 2
        }
    }
}
