import FileSupport
import Foundation
import GRDB

/// Stores below a directory that gets another path, as an app's container does.
extension StateDirectory {
    /// Remembers the root; if it was moved, everything remembered of stores below it gets the new path.
    ///
    /// A former root that still exists wasn't moved: another user has another home directory, for instance.
    func moveStores(toRoot root: URL) throws {
        guard let path = root.path.canonicalPath.map(LocalPath.init) else {
            throw StoreSyncError(.storeNotFound, "The directory \(root.path) doesn't exist on this device.")
        }
        let former = try read { try StateSchema.fetch(LocalPath.self, $0, Self.root, .ofDevice) }
        guard former != path else { return }
        guard let former else { return try setRoot(path) }
        guard isGone(former) else { return }
        let stores = try read(StateSchema.fetchAllStores)
        for document in Set(stores.map(\.document)) { try settleMoves(of: document) }
        for store in stores {
            guard let moved = store.path.moved(from: former, to: path) else { continue }
            try appliedSets(for: store.path, in: store.document)
                .moveIfPresent(to: appliedSets(for: moved, in: store.document))
        }
        try write("moved root") { db in
            for var store in try StateSchema.fetchAllStores(db) {
                guard let moved = store.path.moved(from: former, to: path) else { continue }
                try StateSchema.removeStore(at: store.path, db, store.document)
                store.path = moved
                try StateSchema.save(store, db)
            }
            for var upload in try StateSchema.fetchUnpublishedUploads(db) {
                guard let moved = upload.store?.path.moved(from: former, to: path) else { continue }
                upload.store?.path = moved
                try StateSchema.save(upload, db)
            }
            for (key, name) in try StateSchema.fetchFacts(db, beginning: "synchronization ") {
                guard var memory = try StateSchema.fetch(SynchronizationMemory.self, db, name, key),
                    var store = memory.lastStore
                else { continue }
                store.path = store.path.moved(from: former, to: path) ?? store.path
                store.stateDirectory = store.stateDirectory.moved(from: former, to: path) ?? store.stateDirectory
                memory.lastStore = store
                try StateSchema.save(memory, db, name, key)
            }
            try StateSchema.save(path, db, Self.root, .ofDevice)
        }
    }

    private static let root = "root"

    private func setRoot(_ path: LocalPath) throws {
        try write("root") { try StateSchema.save(path, $0, Self.root, .ofDevice) }
    }
}

extension DocumentKey {
    /// The key of facts that belong to no application.
    fileprivate static let ofDevice = DocumentKey(
        application: ApplicationKey(remote: "", application: ""),
        document: ""
    )
}

extension StateSchema {
    /// The stores of all documents.
    static func fetchAllStores(_ db: Database) throws -> [StoreRecord] {
        try String.fetchAll(db, sql: "SELECT value FROM store").map { try decode($0) }
    }

    /// The uploads to all documents that may not be published.
    static func fetchUnpublishedUploads(_ db: Database) throws -> [UploadRecord] {
        try String.fetchAll(db, sql: "SELECT value FROM upload WHERE NOT isPublished").map { try decode($0) }
    }

    /// The documents and names of all facts whose names begin so.
    fileprivate static func fetchFacts(_ db: Database, beginning: String) throws -> [(DocumentKey, String)] {
        try Row.fetchAll(
            db,
            sql: "SELECT remote, application, document, name FROM fact WHERE substr(name, 1, ?) = ?",
            arguments: [beginning.count, beginning]
        ).map { row in
            let application = ApplicationKey(remote: row[0], application: row[1])
            return (DocumentKey(application: application, document: row[2]), row[3])
        }
    }
}
