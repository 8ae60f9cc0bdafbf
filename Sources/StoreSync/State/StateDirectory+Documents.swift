import GRDB
import RemoteStorage

/// What is remembered of documents: their keys, and which of their uploads were opened.
extension StateDirectory {
    /// The integrity key of a document, if this device has registered with it.
    func integrityKey(for key: DocumentKey) throws -> String? {
        try read { try StateSchema.fetch(String.self, $0, "integrityKey", key) }
    }

    /// The integrity keys that a document had before: none of them is ever the document's again.
    func formerIntegrityKeys(for key: DocumentKey) throws -> [String] {
        try read { try StateSchema.fetch([String].self, $0, "formerIntegrityKeys", key) ?? [] }
    }

    /// Remembers a document's integrity key, and that the keys of its predecessors, the remembered one among them, are former ones.
    func setIntegrityKey(_ integrityKey: String, after predecessors: [String] = [], for key: DocumentKey) throws {
        let (current, former) = (try self.integrityKey(for: key), try formerIntegrityKeys(for: key))
        let next = (predecessors + [current].compactMap(\.self)).reduce(into: former.filter { $0 != integrityKey }) {
            if $1 != integrityKey, !$0.contains($1) { $0.append($1) }
        }
        guard current != integrityKey || next != former else { return }
        try write("integrity key") { db in
            try StateSchema.save(integrityKey, db, "integrityKey", key)
            try StateSchema.save(next, db, "formerIntegrityKeys", key)
        }
    }

    /// What this device has opened of the document that has this integrity key.
    func rollbackMemory(for key: DocumentKey, _ integrityKey: String) throws -> RollbackMemory {
        try read { try StateSchema.fetchMemory($0, key, integrityKey) }
    }

    /// Uploads of which verification found that a file is missing or damaged: no push relies on them.
    func damagedUploads(for key: DocumentKey) throws -> Set<UploadName> {
        try read { try StateSchema.fetch(Set<UploadName>.self, $0, "damagedUploads", key) ?? [] }
    }

    /// Remembers which uploads verification has found damaged, in place of its former findings.
    func setDamagedUploads(_ uploads: Set<UploadName>, for key: DocumentKey) throws {
        guard try damagedUploads(for: key) != uploads else { return }
        try write("damaged uploads") { try StateSchema.save(uploads, $0, "damagedUploads", key) }
    }
}

// MARK: - Uploads

extension StateDirectory {
    /// This device's uploads to a document, published or not, the oldest first; those of one client where that is given.
    func uploads(for key: DocumentKey, client: RemoteIdentifier? = nil) throws -> [UploadRecord] {
        try read { try StateSchema.fetchUploads($0, key, client: client) }
    }

    /// Notes an upload before any of it is on the remote.
    func recordUpload(_ upload: UploadRecord) throws {
        try write("upload") { try StateSchema.save(upload, $0) }
    }

    /// The upload is published: what its store equals now is remembered with it.
    ///
    /// - Parameters:
    ///   - upload: The upload.
    ///   - missing: Remembered uploads that the remote doesn't have, which the user gives up.
    /// - Throws: ``StoreSyncError``.
    func commitPush(_ upload: UploadRecord, givingUp missing: [UploadName] = []) throws {
        try write("push") { try Self.commit(upload, givingUp: missing, $0) }
    }

    private static func commit(_ upload: UploadRecord, givingUp missing: [UploadName], _ db: Database) throws {
        var published = upload
        published.isPublished = true
        published.store = nil
        try StateSchema.save(published, db)
        guard var store = upload.store else { return }
        // That the store has to be replaced may have been found out since.
        let current = try StateSchema.fetchStores(db, store.document).first { $0.path == store.path }
        store.mustReplace = current?.mustReplace ?? false
        try settle(store, db)
        var memory = try StateSchema.fetchMemory(db, upload.document, store.integrityKey)
        memory.open(upload.name, includes: store.contained)
        if !missing.isEmpty { memory.accept(upload.name, givingUp: missing) }
        try StateSchema.save(memory, db, upload.document, store.integrityKey)
    }

    /// Saves what a store is now; whatever this device was about to make of it is over.
    private static func settle(_ store: StoreRecord, _ db: Database) throws {
        try StateSchema.save(store, db)
        for var upload in try StateSchema.fetchUploads(db, store.document) where upload.store?.path == store.path {
            upload.store = nil
            try StateSchema.save(upload, db)
        }
    }

    /// Remembers pushes that were published, as the remote shows, but cut off before they were remembered.
    func adoptInterruptedUploads(_ published: Set<UploadName>, document key: DocumentKey) throws {
        let interrupted = try read { try StateSchema.fetchUploads($0, key) }
            .filter { !$0.isPublished && published.contains($0.name) }
        for upload in interrupted { try commitPush(upload) }
    }

    /// The uploads of a store that were begun, and of which it isn't known whether they were published.
    ///
    /// The store had their content and was only edited since, so it contains them.
    func openUploads(of store: StoreRecord) throws -> Set<UploadName> {
        try read { db in
            Set(try StateSchema.fetchUploads(db, store.document).filter { $0.store?.path == store.path }.map(\.name))
        }
    }
}

// MARK: - Local stores

extension StateDirectory {
    /// What is remembered of every local store of a document.
    func stores(of key: DocumentKey) throws -> [StoreRecord] {
        try read { try StateSchema.fetchStores($0, key) }
    }

    /// What is remembered of the local store at a path.
    func store(at path: String, document key: DocumentKey) throws -> StoreRecord? {
        try stores(of: key).first { $0.path == path }
    }

    /// Notes that every local store of a document has to be replaced before it may be pushed again.
    func markStoresForReplacement(document key: DocumentKey) throws {
        try write("stores to replace") { db in
            for var store in try StateSchema.fetchStores(db, key) {
                store.mustReplace = true
                try StateSchema.save(store, db)
            }
        }
    }

    /// A store is where `store` says now; where it was, nothing is remembered any more.
    func moveStore(from path: String, to store: StoreRecord) throws {
        try write("moved store") { db in
            try StateSchema.removeStore(at: path, db, store.document)
            try StateSchema.save(store, db)
            for var upload in try StateSchema.fetchUploads(db, store.document) where upload.store?.path == path {
                upload.store?.path = store.path
                try StateSchema.save(upload, db)
            }
        }
    }

    /// Notes what a local store is about to become.
    func beginPull(_ future: StoreRecord) throws {
        guard let root = future.contentRoot else { return }
        try write("pull begun") { db in
            var store =
                try StateSchema.fetchStores(db, future.document).first { $0.path == future.path }
                ?? StoreRecord(path: future.path, document: future.document, integrityKey: future.integrityKey)
            // From here on another file may be at its path, and its number may become another file's.
            store.file = nil
            store.pending = StoreRecord.Pending(
                contentRoot: root,
                base: future.base,
                contained: future.contained,
                integrityKey: future.integrityKey
            )
            try StateSchema.save(store, db)
        }
    }

    /// A local store was replaced: what it is now is remembered, and what was opened.
    ///
    /// - Parameters:
    ///   - store: What it is now.
    ///   - isIncluded: Whether an upload that this device has opened before includes what it is now.
    ///   - missing: Remembered uploads that the remote doesn't have, which the user gives up.
    /// - Throws: ``StoreSyncError``.
    func commitPull(_ store: StoreRecord, isIncluded: Bool = false, givingUp missing: [UploadName] = []) throws {
        try write("pull") { db in
            try Self.settle(store, db)
            guard let base = store.base else { return }
            var memory = try StateSchema.fetchMemory(db, store.document, store.integrityKey)
            memory.open(base, includes: store.contained.subtracting([base]), isIncluded: isIncluded)
            if !missing.isEmpty { memory.accept(base, givingUp: missing) }
            try StateSchema.save(memory, db, store.document, store.integrityKey)
        }
    }
}
