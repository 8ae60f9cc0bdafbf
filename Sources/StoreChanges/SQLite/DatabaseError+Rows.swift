import GRDB

extension DatabaseError {
    /// Whether a statement fails because of the row that it writes, and may succeed with another one.
    ///
    /// A constraint refuses the row, or an expression of an index, of a constraint or of a generated column can't be evaluated
    /// for it.
    var isOfRow: Bool {
        [.SQLITE_CONSTRAINT, .SQLITE_ERROR, .SQLITE_MISMATCH, .SQLITE_TOOBIG].contains(resultCode)
    }

    /// Whether a statement fails because of the row that it writes, or because of a search index.
    ///
    /// An index that doesn't hold what its table holds, as if it was never filled, is damaged for SQLite. The store isn't.
    var isOfRowOrSearchIndex: Bool { isOfRow || extendedResultCode == .SQLITE_CORRUPT_VTAB }
}
