import ContentDigests
import GRDB
import RemoteStorage

/// This device's memory of documents: their integrity keys, and which of their uploads it has opened.
extension StateDirectory {
    /// The integrity key of a document, if this device has registered with it.
    func integrityKey(for key: DocumentKey) throws -> String? {
        try read { try StateSchema.fetch(String.self, $0, "integrityKey", key) }
    }

    /// The former integrity keys of a document, none of which becomes valid again.
    func formerIntegrityKeys(for key: DocumentKey) throws -> [String] {
        try read { try StateSchema.fetch([String].self, $0, "formerIntegrityKeys", key) ?? [] }
    }

    /// The documents of an application that this device has registered with.
    func documents(of key: ApplicationKey) throws -> [RemoteIdentifier] {
        try read { try StateSchema.fetchDocuments($0, having: "integrityKey", key).map { try RemoteIdentifier($0) } }
    }

    /// Digests of the notes on this client's removal from a document that this device has processed.
    ///
    /// An untrusted storage may restore such a note.
    func formerRemovalNotes(for key: DocumentKey) throws -> Set<String> {
        try read { try StateSchema.fetch(Set<String>.self, $0, "formerRemovalNotes", key) ?? [] }
    }

    /// Remembers that a note on this client's removal was processed.
    func addFormerRemovalNote(_ digest: String, for key: DocumentKey) throws {
        let notes = try formerRemovalNotes(for: key).union([digest])
        try write("removal note") { try StateSchema.save(notes, $0, "formerRemovalNotes", key) }
    }

    /// Remembers a document's integrity key.
    ///
    /// The key that was remembered so far, and the keys of the document's predecessors, become former keys.
    ///
    /// - Parameters:
    ///   - integrityKey: The key.
    ///   - predecessors: The keys of the document's predecessors.
    ///   - key: The document.
    /// - Returns: `false` if it's a former key: another operation of this device has registered with a successor meanwhile.
    /// - Throws: ``StoreSyncError``.
    @discardableResult
    func setIntegrityKey(
        _ integrityKey: String,
        after predecessors: [String] = [],
        for key: DocumentKey
    ) throws -> Bool {
        let known = try integrityMemory(for: key)
        guard known != known.registered(integrityKey, after: predecessors) else { return true }
        return try write("integrity key") { db in
            let known = try StateSchema.fetchIntegrityMemory(db, key)
            guard !known.former.contains(integrityKey) else { return false }
            let next = known.registered(integrityKey, after: predecessors)
            try StateSchema.save(integrityKey, db, "integrityKey", key)
            try StateSchema.save(next.former, db, "formerIntegrityKeys", key)
            return true
        }
    }

    /// The uploads that this device has opened of the document with this integrity key.
    func rollbackMemory(for key: DocumentKey, _ integrityKey: String) throws -> RollbackMemory {
        try read { try StateSchema.fetchMemory($0, key, integrityKey) }
    }

    /// The uploads in which verification found a missing or damaged file: no push relies on them.
    func damagedUploads(for key: DocumentKey) throws -> Set<UploadName> {
        try read { try StateSchema.fetch(Set<UploadName>.self, $0, "damagedUploads", key) ?? [] }
    }

    /// What this device knows about uploads on the remote: the damaged ones, and the tags of the files that it has sent.
    func trust(in names: [UploadName], of key: DocumentKey) throws -> UploadTrust {
        let tags = try uploads(for: key, .named(names)).map { ($0.name, $0.tags) }
        return UploadTrust(
            damaged: try damagedUploads(for: key),
            tags: Dictionary(tags, uniquingKeysWith: { first, _ in first })
        )
    }

    /// Replaces the remembered uploads that verification has found damaged.
    func setDamagedUploads(_ uploads: Set<UploadName>, for key: DocumentKey) throws {
        guard try damagedUploads(for: key) != uploads else { return }
        try write("damaged uploads") { try StateSchema.save(uploads, $0, "damagedUploads", key) }
    }
}

// MARK: - Uploads

extension StateDirectory {
    /// This device's uploads to a document, of all its clients, published or not.
    func uploads(for key: DocumentKey, _ wanted: UploadSelection = .all) throws -> [UploadRecord] {
        try read { try StateSchema.fetchUploads($0, key, wanted) }
    }

    /// Remembers an upload before any of its files is on the remote.
    func recordUpload(_ upload: UploadRecord) throws {
        try write("upload") { try StateSchema.save(upload, $0) }
    }

    /// Remembers that an upload was published, and the new record of its store.
    ///
    /// - Parameters:
    ///   - upload: The upload.
    ///   - missing: Remembered uploads that are missing on the remote, and that the user accepts as lost.
    /// - Throws: ``StoreSyncError``.
    func commitPush(_ upload: UploadRecord, givingUp missing: [UploadName] = []) throws {
        try write("push") { try Self.commit(upload, givingUp: missing, $0) }
    }

    /// The last upload that this device has published, if the work after its publication isn't done.
    func incompletePush(for key: DocumentKey) throws -> UploadName? {
        try uploads(for: key, .lastPublished).first { $0.isIncomplete == true }?.name
    }

    /// Remembers that the work after the publication of an upload is done.
    func completePush(of name: UploadName, document key: DocumentKey) throws {
        try write("push completed") { db in
            for var upload in try StateSchema.fetchUploads(db, key, .named([name])) {
                upload.isIncomplete = nil
                try StateSchema.save(upload, db)
            }
        }
    }

    private static func commit(_ upload: UploadRecord, givingUp missing: [UploadName], _ db: Database) throws {
        var published = upload
        published.isPublished = true
        published.isIncomplete = true
        published.store = nil
        try StateSchema.save(published, db)
        guard var store = upload.store else { return }
        store.mustReplace = try mustReplace(store, db)
        try settle(store, db)
        var memory = try StateSchema.fetchMemory(db, upload.document, store.integrityKey)
        memory.open(upload.name, includes: store.contained)
        if !missing.isEmpty { memory.accept(upload.name, givingUp: missing) }
        try StateSchema.save(memory, db, upload.document, store.integrityKey)
    }

    /// Whether a store has to be replaced: it may have been marked since its record was read.
    private static func mustReplace(_ store: StoreRecord, _ db: Database) throws -> Bool {
        try StateSchema.fetchStore(db, at: store.path, store.document)?.mustReplace ?? false
    }

    /// Saves a store's record; pending uploads of the store no longer change it.
    private static func settle(_ store: StoreRecord, _ db: Database) throws {
        try StateSchema.save(store, db)
        for var upload in try StateSchema.fetchUploads(db, store.document, .unpublished)
        where upload.store?.path == store.path {
            upload.store = nil
            try StateSchema.save(upload, db)
        }
    }

    /// Remembers pushes that were interrupted after they were published, as their manifests show.
    ///
    /// - Parameters:
    ///   - manifests: The manifests that could be opened.
    ///   - key: The document.
    /// - Throws: ``StoreSyncError``.
    func adoptInterruptedUploads(_ manifests: [StoreManifest], document key: DocumentKey) throws {
        for var upload in try uploads(for: key, .unpublished) {
            guard let manifest = manifests.first(where: { $0.name == upload.name }) else { continue }
            if manifest.hasContent(of: upload) {
                // The push began before the pull that the current record notes as pending, so the pull stays pending.
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
    /// The store had their content and has only been edited since, so it contains them.
    func openUploads(of store: StoreRecord) throws -> Set<UploadName> {
        let open = try uploads(for: store.document, .unpublished)
            .filter { $0.store?.path == store.path && $0.contentRoot != nil }
        return Set(open.map(\.name))
    }
}

// MARK: - Local stores

extension StateDirectory {
    /// The records of all local stores of a document.
    func stores(of key: DocumentKey) throws -> [StoreRecord] {
        try read { try StateSchema.fetchStores($0, key) }
    }

    /// The record of the local store at a path.
    func store(at path: LocalPath, document key: DocumentKey) throws -> StoreRecord? {
        try stores(of: key).first { $0.path == path }
    }

    /// Forgets a local store of a document.
    func forgetStore(at path: LocalPath, document key: DocumentKey) throws {
        try write("forgotten store") { try StateSchema.removeStore(at: path, $0, key) }
    }

    /// Remembers that every local store of a document has to be replaced before it may be pushed again.
    func markStoresForReplacement(document key: DocumentKey) throws {
        try write("stores to replace") { db in
            for var store in try StateSchema.fetchStores(db, key) {
                store.mustReplace = true
                try StateSchema.save(store, db)
            }
        }
    }

    /// Remembers that a store needn't be replaced any more, because it was merged with what the document has.
    ///
    /// If it was pushed or pulled when another document had the name, it contains none of this document's uploads.
    func keepStore(at path: LocalPath, document key: DocumentKey, integrityKey: String) throws {
        guard let store = try store(at: path, document: key), store.mustReplace || store.integrityKey != integrityKey
        else { return }
        try write("merged store") { db in
            guard var store = try StateSchema.fetchStore(db, at: path, key) else { return }
            if store.integrityKey != integrityKey {
                store = StoreRecord(path: path, file: store.file, document: key, integrityKey: integrityKey)
            }
            store.mustReplace = false
            try StateSchema.save(store, db)
        }
    }

    /// Remembers the content that a pull is about to give to a local store.
    ///
    /// - Parameters:
    ///   - future: The store's record after the pull.
    ///   - file: The identity of the downloaded file; `nil` if it's unknown, or if its content is written into the store.
    /// - Returns: The store's former record, if there was one.
    /// - Throws: ``StoreSyncError``.
    @discardableResult
    func beginPull(_ future: StoreRecord, with file: FileIdentity?) throws -> StoreRecord? {
        try write("pull begun") { db in
            let former = try StateSchema.fetchStore(db, at: future.path, future.document)
            guard let root = future.contentRoot else { return former }
            var store =
                former ?? StoreRecord(path: future.path, document: future.document, integrityKey: future.integrityKey)
            // From now on another file may be at the path. Without a time of birth, it may have the former file's number.
            if store.file?.birth == 0 { store.file = nil }
            store.pending = StoreRecord.Pending(
                contentRoot: root,
                base: future.base,
                contained: future.contained,
                integrityKey: future.integrityKey,
                file: file
            )
            try StateSchema.save(store, db)
            return former
        }
    }

    /// Takes back what ``beginPull(_:with:)`` remembered of a store, because the pull hasn't replaced it.
    ///
    /// - Parameters:
    ///   - future: The store's record after the pull.
    ///   - former: What ``beginPull(_:with:)`` returned.
    /// - Throws: ``StoreSyncError``.
    func cancelPull(_ future: StoreRecord, restoring former: StoreRecord?) throws {
        try write("pull cancelled") { db in
            guard let former else { return try StateSchema.removeStore(at: future.path, db, future.document) }
            guard var store = try StateSchema.fetchStore(db, at: future.path, future.document) else { return }
            (store.file, store.pending) = (former.file, former.pending)
            try StateSchema.save(store, db)
        }
    }

    /// Remembers the result of an interrupted pull, as the store shows it, and puts its applied sets into use if the pull
    /// has replaced the store.
    ///
    /// - Parameters:
    ///   - store: The store's record.
    ///   - root: Digest of its content.
    ///   - file: The identity of its file.
    /// - Returns: The store's record from now on.
    /// - Throws: ``StoreSyncError``.
    @discardableResult
    func settlePull(of store: StoreRecord, contentRoot root: ContentRoot, file: FileIdentity?) throws -> StoreRecord {
        guard let pending = store.pending else { return store }
        let isReplaced = store.isReplaced(having: root.description, file) ?? false
        // The app may have edited the downloaded store since.
        var settled = store.settled(for: isReplaced ? pending.contentRoot : root.description)
        if isReplaced { settled.file = file }
        try write("pull") { [settled] db in
            // Before the pull is recorded: if this device dies in between, the pull is settled again.
            if isReplaced {
                try commitAppliedSets(of: store, db)
                // The device had no record of the store before that pull.
                if store.contentRoot == nil { try forgetOtherDocuments(besides: store, db) }
            }
            // If the store may have been replaced, it doesn't contain the uploads that were pending from it.
            if !isReplaced, store.contentRoot == root.description {
                try StateSchema.save(settled, db)
            } else {
                try Self.settle(settled, db)
            }
        }
        return settled
    }

    /// Remembers the status of a local store's files, and nothing else of its record.
    func noteStatus(of store: StoreRecord) throws {
        guard try self.store(at: store.path, document: store.document) != store else { return }
        try write("store status") { db in
            guard var current = try StateSchema.fetchStore(db, at: store.path, store.document),
                current.contentRoot == store.contentRoot
            else { return }
            current.status = store.status
            try StateSchema.save(current, db)
        }
    }

    /// Remembers that a local store equals an upload, as its content shows.
    func noteUnchanged(_ store: StoreRecord) throws {
        try write("pull") { db in
            var store = store
            store.mustReplace = try Self.mustReplace(store, db)
            try Self.commitPull(store, isIncluded: false, givingUp: [], db)
        }
    }

    /// Remembers that a local store was replaced, and which upload was opened; puts the applied sets that came with the
    /// upload into use.
    ///
    /// - Parameters:
    ///   - store: The store's new record.
    ///   - isIncluded: Whether an upload that this device has opened before includes the store's new base.
    ///   - missing: Remembered uploads that are missing on the remote, and that the user accepts as lost.
    ///   - wasUnrelated: Whether the store that was replaced, if there was one, had nothing of the document's uploads.
    /// - Throws: ``StoreSyncError``.
    func commitPull(
        _ store: StoreRecord,
        isIncluded: Bool = false,
        givingUp missing: [UploadName] = [],
        wasUnrelated: Bool = false
    ) throws {
        try write("pull") { db in
            try commitAppliedSets(of: store, db)
            if wasUnrelated { try forgetOtherDocuments(besides: store, db) }
            try Self.commitPull(store, isIncluded: isIncluded, givingUp: missing, db)
        }
    }

    private static func commitPull(
        _ store: StoreRecord,
        isIncluded: Bool,
        givingUp missing: [UploadName],
        _ db: Database
    ) throws {
        try settle(store, db)
        guard let base = store.base else { return }
        var memory = try StateSchema.fetchMemory(db, store.document, store.integrityKey)
        memory.open(base, includes: store.contained.subtracting([base]), isIncluded: isIncluded)
        if !missing.isEmpty { memory.accept(base, givingUp: missing) }
        try StateSchema.save(memory, db, store.document, store.integrityKey)
    }

    /// Forgets the store at a path in all other documents: it's another one now, which has nothing of their uploads.
    private func forgetOtherDocuments(besides store: StoreRecord, _ db: Database) throws {
        for other in try StateSchema.fetchAllStores(db)
        where other.path == store.path && other.document != store.document {
            try StateSchema.removeStore(at: other.path, db, other.document)
            appliedSets(for: other.path, in: other.document).remove()
        }
        for var upload in try StateSchema.fetchUnpublishedUploads(db)
        where upload.store?.path == store.path && upload.document != store.document {
            upload.store = nil
            try StateSchema.save(upload, db)
        }
    }
}
