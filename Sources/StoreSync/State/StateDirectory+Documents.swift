import GRDB
import RemoteStorage
import SyncCryptography

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

    /// The documents of an application that this device has registered with.
    func documents(of key: ApplicationKey) throws -> [RemoteIdentifier] {
        try read { try StateSchema.fetchDocuments($0, having: "integrityKey", key).map { try RemoteIdentifier($0) } }
    }

    /// Whether a document on the remote is neither the document that this device knows nor its successor.
    func isStranger(_ info: DocumentInfo, _ current: String, isEncrypted: Bool, for key: DocumentKey) throws -> Bool {
        guard let remembered = try integrityKey(for: key), remembered != current else { return false }
        if try formerIntegrityKeys(for: key).contains(current) { return true }
        return isEncrypted && !info.predecessors.contains(remembered)
    }

    /// Digests of the notes on this client's removal from a document that this device has acted upon.
    ///
    /// The storage may put such a note back.
    func formerRemovalNotes(for key: DocumentKey) throws -> Set<String> {
        try read { try StateSchema.fetch(Set<String>.self, $0, "formerRemovalNotes", key) ?? [] }
    }

    /// Notes that a note on this client's removal was acted upon.
    func addFormerRemovalNote(_ digest: String, for key: DocumentKey) throws {
        let notes = try formerRemovalNotes(for: key).union([digest])
        try write("removal note") { try StateSchema.save(notes, $0, "formerRemovalNotes", key) }
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

    /// Remembers pushes that were published, as their manifests show, but cut off before they were remembered.
    ///
    /// - Parameters:
    ///   - manifests: The manifests that open.
    ///   - key: The document.
    /// - Throws: ``StoreSyncError``.
    func adoptInterruptedUploads(_ manifests: [StoreManifest], document key: DocumentKey) throws {
        for var upload in try uploads(for: key) where !upload.isPublished {
            guard let manifest = manifests.first(where: { $0.name == upload.name }) else { continue }
            if manifest.hasContent(of: upload) {
                // It was begun before the pull that is noted there.
                let pending = try upload.store.flatMap { try store(at: $0.path, document: key)?.pending }
                upload.store?.pending = pending
                try commitPush(upload)
            } else if upload.store != nil {
                // A copy of this device has published it: this device's store doesn't contain it.
                upload.store = nil
                try recordUpload(upload)
            }
        }
    }

    /// The uploads of a store whose files are all on the remote, and whose manifests may have been published.
    ///
    /// The store had their content and was only edited since, so it contains them.
    func openUploads(of store: StoreRecord) throws -> Set<UploadName> {
        let open = try uploads(for: store.document).filter { $0.store?.path == store.path && $0.contentRoot != nil }
        return Set(open.map(\.name))
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

    /// A store is where `store` says now.
    ///
    /// - Parameters:
    ///   - path: Where it was.
    ///   - store: What is remembered of it.
    ///   - other: What is remembered of the store that was there, if that is at `path` now; else that is forgotten.
    /// - Throws: ``StoreSyncError``.
    func moveStore(from path: String, to store: StoreRecord, exchangingWith other: StoreRecord?) throws {
        try write("moved store") { db in
            try StateSchema.removeStore(at: path, db, store.document)
            try StateSchema.save(store, db)
            if var other {
                other.path = path
                try StateSchema.save(other, db)
            }
            for var upload in try StateSchema.fetchUploads(db, store.document) {
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

    /// Notes what a pull that was cut off has made of a store, as the store's content shows.
    ///
    /// - Parameters:
    ///   - store: What is remembered of the store.
    ///   - root: Digest of its content.
    /// - Returns: What is remembered from now on.
    /// - Throws: ``StoreSyncError``.
    @discardableResult
    func settlePull(of store: StoreRecord, contentRoot root: ContentRoot) throws -> StoreRecord {
        guard store.pending != nil else { return store }
        let settled = store.settled(for: root.description)
        try write("pull") { db in
            // If it may have been replaced, it doesn't contain what was being pushed from it.
            if store.contentRoot == root.description {
                try StateSchema.save(settled, db)
            } else {
                try Self.settle(settled, db)
            }
        }
        return settled
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
