import Foundation

/// The simplest model of a keychain: it forgets no deletion, and doesn't know which edits others have seen.
///
/// A ``KeychainReplica`` must hold the same items, although it forgets deletions.
struct ModelReplica {
    struct Entry: Equatable {
        var counter: UInt64
        var replica: UUID
        var value: String?

        func isGreater(than other: Entry) -> Bool {
            (counter, replica.uuidString) > (other.counter, other.replica.uuidString)
        }
    }

    /// A file that a device has published.
    struct File {
        var entries: [Int: Entry]
        var replica: UUID
        var issued: UInt64
    }

    private(set) var entries: [Int: Entry] = [:]
    private var replica: UUID
    private var counter: UInt64 = 0
    private var issued: UInt64 = 0
    private var published: UInt64 = 0

    init(replica: UUID) { self.replica = replica }

    /// The items that a user sees.
    var items: [Int: String] { entries.compactMapValues(\.value) }

    var file: File { File(entries: entries, replica: replica, issued: issued) }

    mutating func edit(_ key: Int, to value: String?) {
        counter += 1
        issued = counter
        entries[key] = Entry(counter: counter, replica: replica, value: value)
    }

    mutating func merge(_ files: [File], own: File?) {
        if let own, own.replica == replica { published = max(published, own.issued) }
        for (key, entry) in files.flatMap(\.entries) {
            counter = max(counter, entry.counter)
            if entries[key].map(entry.isGreater) ?? true { entries[key] = entry }
        }
    }

    mutating func blitz(_ keys: [Int], as replica: UUID) {
        for key in keys where entries[key]?.value != nil { entries[key] = nil }
        for (key, entry) in entries where entry.replica == self.replica && entry.counter > published {
            entries[key]?.replica = replica
        }
        self.replica = replica
        issued = entries.values.filter { $0.replica == replica }.map(\.counter).max() ?? 0
        published = 0
    }
}
