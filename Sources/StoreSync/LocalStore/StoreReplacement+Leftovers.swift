import Foundation
import SyncCryptography

/// The files beside a store that belong to its replacement.
extension StoreReplacement {
    /// What SQLite, and this package, append to the name of a database.
    private static let suffixes = ["", "-journal", "-wal", "-shm", "-mode"]

    /// What the names begin with.
    ///
    /// The name of the store stands in them as long as there is room for it, else its digest. No prefix of the one kind is
    /// one of the other kind.
    private static func prefix(_ store: LocalStore) -> String {
        let (name, separator) = (store.url.lastPathComponent, ".storesync")
        let idByteCount = 36
        guard 1 + name.utf8.count + separator.utf8.count + 1 + idByteCount > LocalStore.maximumNameBytes else {
            return ".\(name)\(separator)-"
        }
        var hasher = ContentRootHasher()
        hasher.update(Array(name.utf8))
        return ".\(hasher.finalize().description.prefix(32))\(separator)~"
    }

    /// A name beside the store for a download: a new one, or always the same for an upload.
    static func temporaryURL(for store: LocalStore, of upload: UploadName? = nil) -> URL {
        store.directory.appending(path: prefix(store) + (upload?.upload ?? UUID().uuidString))
    }

    /// Removes downloads, but for some, that a process left beside the store when it died.
    static func removeLeftovers(of store: LocalStore, but kept: [URL] = []) throws {
        let (prefix, kept) = (prefix(store), Set(kept.map(\.lastPathComponent)))
        let names = (try? FileManager.default.contentsOfDirectory(atPath: store.directory.path)) ?? []
        for name in names where isLeftover(name, prefix) && !kept.contains(name) {
            try? FileManager.default.removeItem(at: store.directory.appending(path: name))
        }
    }

    /// Whether a name is a prefix, a UUID and a suffix: another store may have a name that begins with the prefix.
    private static func isLeftover(_ name: String, _ prefix: String) -> Bool {
        // By bytes: the file system tells names apart that are equal for Swift.
        guard name.utf8.starts(with: prefix.utf8) else { return false }
        let rest = String(decoding: name.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
        return suffixes.contains { suffix in
            guard rest.hasSuffix(suffix) else { return false }
            let id = String(rest.dropLast(suffix.count))
            return UUID(uuidString: id)?.uuidString == id
        }
    }
}
