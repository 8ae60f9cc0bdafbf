/// What the fold of one set changed: each item as it was, and as it is.
///
/// Undoing a set puts the former items back.
package struct StateDelta {
    /// An item before and after; `nil` where it doesn't exist.
    struct Pair<Item: Equatable> {
        var before: Item?
        var after: Item?

        var isChange: Bool { before != after }
    }

    /// A changed item.
    typealias Changed<Key, Item: Equatable> = (key: Key, pair: Pair<Item>)

    /// Rows with a key, in the order in which they probably are in a store.
    var rows: [Changed<RowReference, StoredRow>] = []
    var tombs: [Changed<RowReference, StoredTomb>] = []
    var aliases: [Changed<AliasKey, Alias>] = []
    var counts: [Changed<RowReference, Int>] = []
}
