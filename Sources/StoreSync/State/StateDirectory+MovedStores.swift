import FileSupport
import Foundation
import GRDB

/// Finds the record of a store that was moved.
extension StateDirectory {
    /// Returns the record of a store, and updates the record's path if the store was moved.
    ///
    /// It's the record of the same file, otherwise of the same path. Any other file would inherit uploads of which it has
    /// nothing. (A store that equals its last push or pull is recognized by its content, once the content has been
    /// digested.)
    @discardableResult
    func locate(_ store: LocalStore, document key: DocumentKey) throws -> StoreRecord? {
        try settleMoves(of: key)
        let records = try stores(of: key)
        let ofPath = records.first { $0.path == store.path }
        guard let file = store.file else { return ofPath }
        let ofFile = records.first {
            $0.isStore(file)
                && ($0.path == store.path || differsOnlyInCase($0, store) || wasMoved($0, to: store, records))
        }
        guard var record = ofFile ?? ofPath else { return nil }
        guard record.path != store.path else { return record }
        let former = record.path
        (record.path, record.file) = (store.path, file)
        let there = FileIdentity(atPath: former.text)
        let other = ofPath.flatMap { replaced in there.map(replaced.isStore) == true ? replaced : nil }
        try moveStore(from: former, to: record, exchangingWith: other)
        try settleMoves(of: key)
        if other == nil { removeLeftovers(ofStoreAt: former, in: key) }
        return record
    }

    /// Removes what interrupted downloads left at the former path of a store, unless another operation works there.
    private func removeLeftovers(ofStoreAt path: LocalPath, in document: DocumentKey) {
        let url = URL(filePath: path.text)
        let directory = url.deletingLastPathComponent().path
        // An operation follows links. Its files may be in a directory to which a link leads, but never next to a store's link.
        guard directory.canonicalPath == directory, let lock = try? lock(.store(path), .exclusive) else { return }
        defer { lock.release() }
        StoreReplacement.removeLeftovers(nextTo: url)
        try? pullJournal(of: path, in: document).remove()
    }

    /// Whether a record's file may have been moved to the path of `store`: the record's path has no file, a link to the store,
    /// or the file of another record.
    ///
    /// Equal file numbers aren't enough: if a program has removed or replaced the file, the file system may reuse its
    /// number. If the time of birth isn't recorded, a file at a new path may be an old backup with a reused number. It
    /// must not inherit uploads of which it has nothing, unless its name says that it's the same store.
    func wasMoved(_ record: StoreRecord, to store: LocalStore, _ records: [StoreRecord]) -> Bool {
        let hasBirth = (record.file ?? record.pending?.file).map { $0.birth != 0 } ?? false
        let isNewPath = !records.contains { $0.path == store.path }
        guard hasBirth || !isNewPath || hasSameName(record, store) else { return false }
        guard let there = FileIdentity(atPath: record.path.text) else { return isGone(record.path) }
        return record.path.text.canonicalPath == store.path.text
            || records.contains { $0.path != record.path && $0.isStore(there) }
    }

    /// Whether a store is the file of another document, which recorded it at another path.
    func isFile(_ store: LocalStore, ofOtherDocumentThan key: DocumentKey) throws -> Bool {
        guard let file = store.file, file.birth != 0 else { return false }
        return try read(StateSchema.fetchAllStores).contains {
            $0.isStore(file) && $0.path != store.path && $0.document != key
        }
    }

    /// Whether only the case of a store's name changed, or the form of its text: where a file system ignores that, the
    /// former path leads to the store too.
    private func differsOnlyInCase(_ record: StoreRecord, _ store: LocalStore) -> Bool {
        record.path.text.lowercased() == store.path.text.lowercased()
    }

    private func hasSameName(_ record: StoreRecord, _ store: LocalStore) -> Bool {
        LocalPath(URL(filePath: record.path.text).lastPathComponent) == LocalPath(store.url.lastPathComponent)
    }

    /// Whether nothing exists at a path.
    func isGone(_ path: LocalPath) -> Bool {
        do {
            return try path.text.fileStatus() == nil
        } catch {
            return false
        }
    }
}

// MARK: - The applied sets of moved stores

/// The applied sets follow a move in three steps: they are set aside; the move is recorded, with the names under which they are set
/// aside; they are put at the store's new path. If this device dies, the record says whether the move has happened.
extension StateDirectory {
    /// The fact that says, by the names of the directories in which applied sets are set aside, where their stores are now.
    private static let movedSets = "movedAppliedSets"

    /// Remembers that a store was moved to the path in `store`, and sets its applied sets aside.
    ///
    /// - Parameters:
    ///   - path: The store's former path.
    ///   - store: The store's record, with its new path.
    ///   - other: The record of the store that was at the new path, if that store is at `path` now; `nil` discards the
    ///     record.
    /// - Throws: ``StoreSyncError``.
    private func moveStore(from path: LocalPath, to store: StoreRecord, exchangingWith other: StoreRecord?) throws {
        let key = store.document
        try write("moved store") { db in
            try settleMoves(of: key, db)
            var moves = [try appliedSets(for: path, in: key).setAside(): store.path]
            if other != nil { moves[try appliedSets(for: store.path, in: key).setAside()] = path }
            try steps.reached("applied sets set aside")
            try StateSchema.save(moves, db, Self.movedSets, key)
            try StateSchema.removeStore(at: path, db, key)
            try StateSchema.save(store, db)
            if var other {
                other.path = path
                try StateSchema.save(other, db)
            }
            for var upload in try StateSchema.fetchUploads(db, key, .unpublished) {
                switch upload.store?.path {
                case path: upload.store?.path = store.path
                case store.path where other != nil: upload.store?.path = path
                case store.path: upload.store = nil
                default: continue
                }
                try StateSchema.save(upload, db)
            }
        }
    }

    /// Completes recorded moves of a document's stores, and takes back moves that this device died before recording.
    func settleMoves(of key: DocumentKey) throws {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: appliedURL.path)) ?? []
        let isSettled = try read { db in
            try StateSchema.fetch([String: LocalPath].self, db, Self.movedSets, key)?.isEmpty ?? true
                && StateSchema.fetchStores(db, key).allSatisfy {
                    !appliedSets(for: $0.path, in: key).isSetAside(among: names)
                }
        }
        guard !isSettled else { return }
        try write("moved applied sets") { try settleMoves(of: key, $0) }
    }

    func settleMoves(of key: DocumentKey, _ db: Database) throws {
        let moves = try StateSchema.fetch([String: LocalPath].self, db, Self.movedSets, key) ?? [:]
        for (name, path) in moves { try appliedSets(for: path, in: key).take(name) }
        for store in try StateSchema.fetchStores(db, key) { try appliedSets(for: store.path, in: key).restore() }
        if !moves.isEmpty { try StateSchema.save([String: LocalPath](), db, Self.movedSets, key) }
    }

    /// Puts the staged applied sets of a store into use.
    func commitAppliedSets(of store: StoreRecord, _ db: Database) throws {
        // Or a move that is taken back later would replace them.
        try settleMoves(of: store.document, db)
        try appliedSets(for: store.path, in: store.document).commit()
    }
}
