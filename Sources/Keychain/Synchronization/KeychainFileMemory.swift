import Foundation

/// A record of the clients' files that a device has read, by which it notices when the storage returns an older file.
///
/// A keychain that has seen an edit isn't deceived by an older file. But a blitz makes it forget the edits that it has seen, and
/// an older file would then bring back items that were deleted later. The edits in a client's file only increase as long as the
/// keychain keeps its replica identifier. So a file with fewer edits than its predecessor is older, or of a former replica.
package struct KeychainFileMemory: Equatable, Sendable, Codable {
    /// The number of former replica identifiers that are remembered for each client.
    static let rememberedLives = 64

    private struct Reading: Equatable, Sendable, Codable {
        var replica: UUID
        var seen: [UUID: UInt64]
        /// The former replica identifiers, the newest last.
        var former: [UUID] = []
    }

    private var readings: [String: Reading] = [:]

    /// Creates an empty record.
    package init() {}

    /// The clients whose files were read.
    package var clients: Set<String> { Set(readings.keys) }

    /// Whether a client's file is older than its last file that was read.
    package func isOlder(_ file: KeychainFile, of client: String) -> Bool {
        guard let last = readings[client] else { return false }
        // A replica that the last file has seen existed before that file.
        let isKnown =
            file.replica == last.replica || last.former.contains(file.replica) || last.seen[file.replica] != nil
        return isKnown && last.seen.contains { file.seen[$0.key, default: 0] < $0.value }
    }

    /// Records that a client's file was read or written.
    package mutating func note(_ file: KeychainFile, of client: String) {
        guard !isOlder(file, of: client) else { return }
        var former = readings[client]?.former ?? []
        if let last = readings[client]?.replica, last != file.replica {
            former = (former.filter { $0 != last } + [last]).suffix(Self.rememberedLives)
        }
        readings[client] = Reading(replica: file.replica, seen: file.seen, former: former)
    }
}
