import ByteCoding
import ContentDigests
import Foundation
import GRDB

/// The files next to a store that belong to its replacement.
extension StoreReplacement {
    /// The suffixes that SQLite and this package append to the name of a database.
    private static let suffixes = ["", "-mode"] + LocalStore.sideSuffixes

    /// The prefix of the names.
    ///
    /// It contains the store's name if that is short enough, otherwise a digest of the name. No prefix of the one kind
    /// equals a prefix of the other kind.
    private static func prefix(_ store: URL) -> String {
        let (name, separator) = (store.lastPathComponent, ".storesync")
        let idByteCount = 36
        guard 1 + name.utf8.count + separator.utf8.count + 1 + idByteCount > LocalStore.maximumNameBytes else {
            return ".\(name)\(separator)-"
        }
        return ".\(ContentRoot.of(name.utf8).description.prefix(32))\(separator)~"
    }

    /// A new path of a file next to the store.
    static func temporaryURL(for store: LocalStore) -> URL { url(for: store, UUID()) }

    /// The path of an upload's download next to the store, always the same for a journal.
    ///
    /// Another state directory has another journal: its download of the same upload must not be this one's.
    static func temporaryURL(for store: LocalStore, of upload: UploadName, _ journal: TransferJournal.File) -> URL {
        let digest = ContentRoot.of("\(upload.upload)\0\(journal.url.path)".utf8)
        return url(for: store, UUID(bytes: digest.bytes.prefix(16)))
    }

    private static func url(for store: LocalStore, _ id: UUID) -> URL {
        store.directory.appending(path: prefix(store.url) + id.uuidString)
    }

    /// Removes the downloads, except `resumable`, that a process left next to a store's path when it died, even if a link is
    /// at that path now.
    static func removeLeftovers(nextTo url: URL, but resumable: [URL] = []) {
        // A download that shares its file with the store was about to get its place when this device died.
        let kept = Set(resumable.filter { LocalFile.isUnshared($0.path) }.map(\.lastPathComponent))
        let (prefix, directory) = (prefix(url), url.deletingLastPathComponent())
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        for name in names where isLeftover(name, after: prefix) && !kept.contains(name) {
            try? FileManager.default.removeItem(at: directory.appending(path: name))
        }
    }

    /// Removes downloads, and what SQLite has left of them.
    static func remove(_ downloads: [URL]) {
        for path in downloads.flatMap({ url in suffixes.map { url.path + $0 } }) { unlink(path) }
    }

    /// Whether a name is a prefix, a UUID and a suffix: another store may have a name that begins with the prefix.
    private static func isLeftover(_ name: String, after prefix: String) -> Bool {
        // Compares bytes: the file system distinguishes names that are equal as Swift strings.
        guard name.utf8.starts(with: prefix.utf8) else { return false }
        let rest = String(decoding: name.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
        return suffixes.contains { suffix in
            guard rest.hasSuffix(suffix) else { return false }
            let id = String(rest.dropLast(suffix.count))
            return UUID(uuidString: id)?.uuidString == id
        }
    }

    // MARK: The journal mode

    /// A file that exists while a store in WAL mode is switched to another mode for its replacement.
    private static func logMark(of store: LocalStore) -> String {
        store.directory.appending(path: prefix(store.url) + "journal-mode").path
    }

    /// Notes durably that a store is in WAL mode.
    static func markLog(of store: LocalStore) throws {
        let mark = logMark(of: store)
        if access(mark, F_OK) != 0 { try LocalFile.create(mark) }
        try LocalFile.synchronize(store.directory.path)
    }

    /// Removes the note that a store was in WAL mode, once the mode was restored or the store was replaced.
    static func unmarkLog(of store: LocalStore) {
        unlink(logMark(of: store))
    }

    /// Puts a store back into WAL mode if a process died between the change of its mode and its replacement.
    ///
    /// Blocks for at most two seconds. If another program has the store open, the next operation tries again. The
    /// present operation doesn't need WAL mode.
    static func restoreLog(of store: LocalStore) {
        guard access(logMark(of: store), F_OK) == 0 else { return }
        do {
            if let database = try store.openDatabase(timeout: 2) {
                defer { try? database.close() }
                let mode = try database.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode = WAL") }
                guard mode == "wal" else { return }
            }
            unmarkLog(of: store)
        } catch {
            // The operation finds the same error when it reads the store, and says what to do.
        }
    }
}
