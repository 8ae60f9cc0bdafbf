import GRDB

/// What is remembered of documents and of local stores.
extension StateDirectory {
    /// The integrity key of a document, if this device has registered with it.
    func integrityKey(for key: DocumentKey) throws -> String? {
        try read { try StateSchema.fetch(String.self, $0, "integrityKey", key) }
    }

    /// The integrity keys that a document's former selves had: none of them is ever the document's again.
    func formerIntegrityKeys(for key: DocumentKey) throws -> [String] {
        try read { try StateSchema.fetch([String].self, $0, "formerIntegrityKeys", key) ?? [] }
    }

    /// Remembers a document's integrity key.
    ///
    /// Only one that says that it was made anew, a successor, ends another: the first of all, put back by a storage, doesn't
    /// make its successors former ones.
    func setIntegrityKey(_ integrityKey: String, isSuccessor: Bool = false, for key: DocumentKey) throws {
        let (current, former) = (try self.integrityKey(for: key), try formerIntegrityKeys(for: key))
        guard current != integrityKey else { return }
        try write("integrity key") { db in
            // Another key is another document: its generations begin anew.
            try StateSchema.save(RollbackMemory(), db, "rollbackMemory", key)
            try StateSchema.save(integrityKey, db, "integrityKey", key)
            guard let current, isSuccessor else { return }
            try StateSchema.save(former + [current], db, "formerIntegrityKeys", key)
        }
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

    /// What is remembered of a local store.
    func store(at path: String, document key: DocumentKey) throws -> StoreRecord? {
        try read { try StateSchema.fetchStores($0, key).first { $0.path == path } }
    }

    /// This client's uploads to a document, published or not, the oldest first.
    func uploads(for key: DocumentKey, client: String) throws -> [UploadRecord] {
        try read { try StateSchema.fetchUploads($0, key, client: client) }
    }

    /// Notes an upload before any of it is on the remote.
    func recordUpload(_ upload: UploadRecord) throws {
        try write("upload") { try StateSchema.save(upload, $0) }
    }

    /// The upload is published: what its store equals now is remembered with it.
    func commitPush(_ upload: UploadRecord) throws {
        try write("push") { try Self.commit(upload, $0) }
    }

    private static func commit(_ upload: UploadRecord, _ db: Database) throws {
        var published = upload
        published.isPublished = true
        try StateSchema.save(published, db)
        var store = upload.store
        // That the store has to be replaced may have been found out since.
        let current = try StateSchema.fetchStores(db, store.document).first { $0.path == store.path }
        store.mustReplace = current?.mustReplace ?? false
        try StateSchema.save(store, db)
        try StateSchema.remember(upload.document, db) {
            $0.open(client: upload.client, upload.reference, includes: upload.store.vector)
        }
    }

    /// Remembers pushes that were published, as the remote shows, but cut off before they were remembered.
    func adoptInterruptedUploads(client: String, published: Set<UploadReference>, document key: DocumentKey) throws {
        let interrupted = try uploads(for: key, client: client)
            .filter { !$0.isPublished && published.contains($0.reference) }
        for upload in interrupted { try commitPush(upload) }
    }

    /// Forgets an upload of which nothing is on the remote any more.
    func forgetUpload(_ upload: String) throws {
        try write("upload removed") { db in
            try db.execute(sql: "DELETE FROM upload WHERE upload = ?", arguments: [upload])
        }
    }

    /// Notes what a local store is about to become.
    func beginPull(_ future: StoreRecord) throws {
        guard let root = future.contentRoot else { return }
        try write("pull begun") { db in
            var store =
                try StateSchema.fetchStores(db, future.document).first { $0.path == future.path }
                ?? StoreRecord(path: future.path, document: future.document, integrityKey: future.integrityKey)
            store.pending = StoreRecord.Pending(
                contentRoot: root,
                vector: future.vector,
                base: future.base,
                integrityKey: future.integrityKey
            )
            try StateSchema.save(store, db)
        }
    }

    /// A local store was replaced: what it is now is remembered, and what was opened.
    func commitPull(
        _ store: StoreRecord,
        opened: (client: String, reference: UploadReference, includes: GenerationVector)?,
        acceptsRollback: Bool
    ) throws {
        try write("pull") { db in
            try StateSchema.save(store, db)
            guard let opened else { return }
            try StateSchema.remember(store.document, db) { memory in
                let isOlder = memory.isRolledBack(client: opened.client, generation: opened.reference.generation)
                if isOlder, acceptsRollback {
                    memory.accept(client: opened.client, opened.reference, includes: opened.includes)
                } else {
                    memory.open(client: opened.client, opened.reference, includes: opened.includes)
                }
            }
        }
    }

    /// What this device has opened of a document.
    func rollbackMemory(for key: DocumentKey) throws -> RollbackMemory {
        try read { try StateSchema.fetch(RollbackMemory.self, $0, "rollbackMemory", key) ?? RollbackMemory() }
    }
}
