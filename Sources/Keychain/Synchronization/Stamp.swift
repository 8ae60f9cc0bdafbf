import Foundation
import SyncCryptography

/// The time of an edit, in the order that all devices agree on: a Lamport counter and the editing replica.
struct Stamp: Hashable, Sendable, Comparable {
    /// One more than any counter that the editing replica had seen.
    let counter: UInt64
    /// The replica that made the edit.
    let replica: UUID

    static func < (left: Stamp, right: Stamp) -> Bool {
        (left.counter, left.replica) < (right.counter, right.replica)
    }
}

/// The state of an item after its last edit.
struct ItemEntry: Hashable, Sendable {
    let stamp: Stamp
    /// The secret; `nil` in a tombstone: the item was deleted.
    let secret: SecretBytes?

    /// Whether this entry overrules another.
    ///
    /// The greater stamp wins. Two edits have the same stamp only if a device was copied. Then a tombstone wins, else the greater
    /// bytes: any rule works that gives the same result on every device.
    func wins(over other: ItemEntry) -> Bool {
        guard stamp == other.stamp else { return stamp > other.stamp }
        guard let secret, let otherSecret = other.secret else { return secret == nil && other.secret != nil }
        return secret.withBytes { left in
            otherSecret.withBytes { right in right.lexicographicallyPrecedes(left) }
        }
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(stamp)
    }
}
