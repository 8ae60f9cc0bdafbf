/// What counts if a store and its document don't belong together: the store is a copy, a restored backup or another one.
///
/// Without such a decision nothing is captured, because the difference would look as if the user had made it.
public enum TakenSide: String, Hashable, Sendable, CaseIterable {
    /// The store: whatever is different in it is an edit of the user.
    ///
    /// Rows that another device has inserted, and that not all devices have seen yet, come back, unless the store has equal
    /// ones. Rows without a key that another device has inserted come back too.
    /// The document's values and rows that the store replaces or lacks are in the conflict log.
    case local
    /// The document: what is different in the store is discarded.
    case remote
    /// The rows of both.
    ///
    /// Rows that the store lacks come back. Where values differ, the document's stay, and the store's are in the
    /// conflict log. Rows with integer keys are the same if all else is equal.
    case both
}
