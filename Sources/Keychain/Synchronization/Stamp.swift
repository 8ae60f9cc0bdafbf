import Foundation
import SyncCryptography

/// When an edit was made, in the order that all devices agree on: a Lamport counter, and who made it.
struct Stamp: Hashable, Sendable, Comparable {
    /// One more than any counter that its maker had seen.
    let counter: UInt64
    /// The replica that made the edit.
    let replica: UUID

    static func < (left: Stamp, right: Stamp) -> Bool {
        (left.counter, left.replica) < (right.counter, right.replica)
    }
}

/// What became of an item by its last edit.
struct ItemEntry: Hashable, Sendable {
    let stamp: Stamp
    /// The secret; `nil` in a tombstone: the item was deleted.
    let secret: SecretBytes?

    /// Whether this one stands where both are known.
    ///
    /// The greater stamp wins. No stamp is given twice; should two edits have the same nevertheless, because somebody copied a
    /// device, then a tombstone wins, and else the greater bytes: anything, so long as it's the same on every device.
    func wins(over other: ItemEntry) -> Bool {
        guard stamp == other.stamp else { return stamp > other.stamp }
        guard let secret, let otherSecret = other.secret else { return secret == nil && other.secret != nil }
        return secret.withBytes { left in
            otherSecret.withBytes { right in right.lexicographicallyPrecedes(left) }
        }
    }

    static func == (left: ItemEntry, right: ItemEntry) -> Bool {
        left.stamp == right.stamp && left.secret == right.secret
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(stamp)
    }
}
