import Foundation

/// What a device has read of every client's file, so that the storage can't put an older one in its place unnoticed.
///
/// A keychain that has seen an edit isn't deceived by a file from before it. But a blitz makes it forget what it has seen, and
/// an older file would then bring back what was deleted since. What a client's file contains only grows in one life of its
/// keychain, so one that contains less than the one before is older, or of a former life.
package struct KeychainFileMemory: Hashable, Sendable, Codable {
    /// How many former lives of each client are recognised.
    static let rememberedLives = 64

    private struct Reading: Hashable, Sendable, Codable {
        var replica: UUID
        var seen: [UUID: UInt64]
        /// The lives before, the newest last.
        var former: [UUID] = []
    }

    private var readings: [String: Reading] = [:]

    /// Creates a memory of nothing.
    package init() {}

    /// The clients whose files were read.
    package var clients: Set<String> { Set(readings.keys) }

    /// Whether a client's file is older than one that was read of it.
    package func isOlder(_ file: KeychainFile, of client: String) -> Bool {
        guard let last = readings[client] else { return false }
        // A life that the last one knew of came before it.
        let isKnown =
            file.replica == last.replica || last.former.contains(file.replica) || last.seen[file.replica] != nil
        return isKnown && last.seen.contains { file.seen[$0.key, default: 0] < $0.value }
    }

    /// A client's file was read, or written.
    package mutating func note(_ file: KeychainFile, of client: String) {
        guard !isOlder(file, of: client) else { return }
        var former = readings[client]?.former ?? []
        if let last = readings[client]?.replica, last != file.replica {
            former = (former.filter { $0 != last } + [last]).suffix(Self.rememberedLives)
        }
        readings[client] = Reading(replica: file.replica, seen: file.seen, former: former)
    }
}
