import HeapModule

/// The constraints that a set may have violated, in the order in which they are repaired.
struct RepairQueue {
    /// Rows with equal values in a unique index.
    struct UniqueCheck: Comparable {
        var sortName: String
        /// The least of the rows, or a lesser row that had these values.
        var row: RowReference
        var index: Int
        /// The values.
        var key: LookupKey

        static func < (lhs: UniqueCheck, rhs: UniqueCheck) -> Bool {
            if lhs.row.table != rhs.row.table { return lhs.row.table.precedes(rhs.row.table) }
            if lhs.sortName != rhs.sortName { return lhs.sortName.precedes(rhs.sortName) }
            return lhs.row == rhs.row ? lhs.index < rhs.index : lhs.row < rhs.row
        }
    }

    /// A reference that may lead nowhere.
    struct ReferenceCheck: Hashable, Comparable {
        /// References that restrict come first, then references that clear or delete.
        var rank: Int
        var table: String
        var sortName: String
        var row: RowReference
        var reference: FoldSchema.ReferenceID

        static func < (lhs: ReferenceCheck, rhs: ReferenceCheck) -> Bool {
            if lhs.rank != rhs.rank { return lhs.rank < rhs.rank }
            if lhs.table != rhs.table { return lhs.table.precedes(rhs.table) }
            if lhs.sortName != rhs.sortName { return lhs.sortName.precedes(rhs.sortName) }
            return lhs.row == rhs.row ? lhs.reference.index < rhs.reference.index : lhs.row < rhs.row
        }
    }

    private var uniques = Heap<UniqueCheck>()
    private var references = Heap<ReferenceCheck>()
    /// The rows under which values are queued.
    private var queuedUniques: [LookupKey: RowReference] = [:]
    private var queuedReferences: Set<ReferenceCheck> = []
    /// The rows that repairs wrote, or whose references lead to other rows than their author's, to be checked last.
    private var rows = Heap<RowReference>()
    private var queuedRows: Set<RowReference> = []

    /// The row under which values are queued.
    func row(of key: LookupKey) -> RowReference? { queuedUniques[key] }

    /// Queues a check; if its values are queued under another row, that row is greater.
    mutating func insert(_ check: UniqueCheck) {
        if queuedUniques.updateValue(check.row, forKey: check.key) != check.row { uniques.insert(check) }
    }

    mutating func insert(_ check: ReferenceCheck) {
        if queuedReferences.insert(check).inserted { references.insert(check) }
    }

    mutating func insert(_ row: RowReference) {
        if queuedRows.insert(row).inserted { rows.insert(row) }
    }

    mutating func nextUnique() -> UniqueCheck? {
        guard let check = uniques.popMin() else { return nil }
        if queuedUniques[check.key] == check.row { queuedUniques[check.key] = nil }
        return check
    }

    mutating func nextReference() -> ReferenceCheck? {
        guard let check = references.popMin() else { return nil }
        queuedReferences.remove(check)
        return check
    }

    mutating func nextRow() -> RowReference? {
        guard let row = rows.popMin() else { return nil }
        queuedRows.remove(row)
        return row
    }
}
