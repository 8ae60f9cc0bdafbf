import Foundation

/// Finds the record of a store that was moved.
extension StateDirectory {
    /// Returns the record of a store, and updates the record's path if the store was moved.
    ///
    /// It's the record of the same file; otherwise of the same path; otherwise the document's only record, if its file
    /// is missing and has the same name. (A store that equals its last push or pull is recognized by its content, once
    /// the content has been digested.)
    @discardableResult
    func locate(_ store: LocalStore, document key: DocumentKey) throws -> StoreRecord? {
        let records = try stores(of: key)
        let ofPath = records.first { $0.path == store.path }
        guard let file = store.file else { return try ofPath.map { try completingMove(of: $0) } }
        let ofFile = records.first {
            $0.file == file && ($0.path == store.path || differsOnlyInCase($0, store) || wasMoved($0, records))
        }
        // Any other file would inherit uploads of which it has nothing.
        let only = records.count == 1 ? records.first { isGone($0.path) && hasSameName($0, store) } : nil
        guard var record = ofFile ?? ofPath ?? only else { return nil }
        guard record.path != store.path else { return try completingMove(of: record) }
        let former = record.path
        (record.path, record.file) = (store.path, file)
        let (sets, setsThere) = (appliedSets(for: former, in: key), appliedSets(for: store.path, in: key))
        let other = ofPath.flatMap { $0.file != nil && $0.file == FileIdentity(atPath: former) ? $0 : nil }
        try sets.beginMove(to: setsThere)
        if other != nil { try setsThere.beginMove(to: sets) }
        try moveStore(from: former, to: record, exchangingWith: other)
        if other != nil { try sets.completeMove() } else { removeLeftovers(ofStoreAt: former) }
        return try completingMove(of: record)
    }

    /// Removes what interrupted downloads left at the former path of a store, unless another operation works there.
    private func removeLeftovers(ofStoreAt path: String) {
        guard let store = try? LocalStore(URL(filePath: path)), let lock = try? lock(.store(store.path), .exclusive)
        else { return }
        defer { lock.release() }
        StoreReplacement.removeLeftovers(of: store)
    }

    /// Moves the applied sets of a store to its path in `record`, unless they are there.
    private func completingMove(of record: StoreRecord) throws -> StoreRecord {
        try appliedSets(for: record.path, in: record.document).completeMove()
        return record
    }

    /// Whether a record's file may have been moved: its path has no file, or the file of another record.
    ///
    /// Equal file numbers aren't enough: if a program has replaced the file, the file system may reuse its number.
    private func wasMoved(_ record: StoreRecord, _ records: [StoreRecord]) -> Bool {
        guard let there = FileIdentity(atPath: record.path) else { return isGone(record.path) }
        return records.contains { $0.path != record.path && $0.file == there }
    }

    /// Whether only the case of a store's name changed: where a file system ignores it, the former path leads to the store too.
    private func differsOnlyInCase(_ record: StoreRecord, _ store: LocalStore) -> Bool {
        record.path.lowercased() == store.path.lowercased()
    }

    private func hasSameName(_ record: StoreRecord, _ store: LocalStore) -> Bool {
        URL(filePath: record.path).lastPathComponent == store.url.lastPathComponent
    }

    /// Whether nothing exists at a path.
    func isGone(_ path: String) -> Bool { access(path, F_OK) != 0 && errno == ENOENT }
}
