import GRDB

extension DatabaseError {
    /// Whether a statement fails because of the row that it writes, and may succeed with another one.
    ///
    /// A constraint refuses the row, or an expression of an index, of a constraint or of a generated column can't be evaluated
    /// for it.
    var isOfRow: Bool {
        [.SQLITE_CONSTRAINT, .SQLITE_ERROR, .SQLITE_MISMATCH, .SQLITE_TOOBIG].contains(resultCode)
    }
}
