import Foundation

extension KeychainTransaction {
    /// Returns all synchronizable items and tombstones.
    func replica() throws -> KeychainReplica {
        var replica = KeychainReplica(clock: try clock())
        let rows = try rows(where: "isSynchronizable != 0")
        for (row, secret) in zip(rows, try secrets(of: rows)) {
            guard case .synchronizable(let stamp) = row.version else { continue }
            replica.entries[row.key] = ItemEntry(stamp: stamp, secret: secret)
        }
        return replica
    }

    /// Writes the changes of a replica that was read in this transaction.
    func write(_ replica: KeychainReplica, insteadOf former: KeychainReplica) throws {
        for key in former.entries.keys where replica.entries[key] == nil {
            try remove(key, isSynchronizable: true)
        }
        for (key, entry) in replica.entries where former.entries[key] != entry {
            try write(entry.secret, key, .synchronizable(entry.stamp))
        }
        if replica.clock != former.clock { try write(replica.clock) }
    }
}
