import Foundation

/// Finding what is remembered of a store that was moved.
extension StateDirectory {
    /// What is remembered of a store, also if it was moved since; that is remembered under its present path from then on.
    ///
    /// It's the record of that very file; else of that path; else, if the file of the only record of the document is gone, that
    /// one. (A store that equals what was last pushed or pulled is recognised by its content, once that was digested.)
    @discardableResult
    func locate(_ store: LocalStore, document key: DocumentKey) throws -> StoreRecord? {
        let records = try stores(of: key)
        guard let file = store.file else { return records.first { $0.path == store.path } }
        let ofFile = records.first { $0.file == file && ($0.path == store.path || wasMoved($0, records)) }
        let ofPath = records.first { $0.path == store.path }
        let only = records.count == 1 ? records.first { isGone($0.path) } : nil
        guard var record = ofFile ?? ofPath ?? only else { return nil }
        guard record.path != store.path else { return record }
        let former = record.path
        (record.path, record.file) = (store.path, file)
        let (sets, setsThere) = (appliedSets(for: former, in: key), appliedSets(for: store.path, in: key))
        let other = ofPath.flatMap { $0.file != nil && $0.file == FileIdentity(atPath: former) ? $0 : nil }
        if other != nil { try sets.exchange(with: setsThere) } else { try sets.move(to: setsThere) }
        try moveStore(from: former, to: record, exchangingWith: other)
        return record
    }

    /// Whether the file of a record can be elsewhere: nothing is at its path, or the file of another record.
    ///
    /// Where a program has replaced the file, the file system may give its number to the next file that is made.
    private func wasMoved(_ record: StoreRecord, _ records: [StoreRecord]) -> Bool {
        guard let there = FileIdentity(atPath: record.path) else { return isGone(record.path) }
        return records.contains { $0.path != record.path && $0.file == there }
    }

    private func isGone(_ path: String) -> Bool { access(path, F_OK) != 0 && errno == ENOENT }
}
