import Foundation
import GRDB
import StoreChanges

/// This device's replicas of the stores that it synchronizes: one for each origin of a document.
extension StateDirectory {
    /// The replica of a document's store.
    func replica(of key: DocumentKey, since origin: UUID) -> URL {
        replicaDirectory.appending(path: replicaName(of: key, since: origin.uuidString))
    }

    /// The name of the replica of a document's store.
    func replicaName(of key: DocumentKey, since origin: String) -> String { key.fileName(origin) + ".sqlite" }

    /// The replicas of all stores.
    func replicas() -> [URL] {
        let files = try? FileManager.default.contentsOfDirectory(at: replicaDirectory, includingPropertiesForKeys: nil)
        return (files ?? []).filter { $0.pathExtension == "sqlite" }.sorted { $0.path < $1.path }
    }

    private var replicaDirectory: URL { url.appending(path: "replicas", directoryHint: .isDirectory) }

    /// Creates the directory of all replicas, which are as secret as the stores.
    func makeReplicaDirectory() throws { try LocalFile.createDirectory(at: replicaDirectory) }

    /// The replicas of a document that this device remembers, or of all documents of an application.
    func replicas(of key: ApplicationKey, document: String? = nil) throws -> [URL] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT document, value FROM fact
                    WHERE remote = ? AND application = ? AND document = ifnull(?, document) AND name LIKE 'synchronization %'
                    """,
                arguments: [key.remote, key.application, document]
            ).map { row in
                let memory = try StateSchema.decode(row["value"]) as SynchronizationMemory
                return replica(of: DocumentKey(application: key, document: row["document"]), since: memory.origin)
            }
        }
    }

    /// Removes replicas that no synchronization needs any more: they hold all rows, and what merging overwrote.
    func remove(_ replicas: [URL]) throws {
        for replica in replicas {
            do {
                try SynchronizedStore.removeReplica(at: replica)
            } catch {
                throw StoreSyncError(writing: replica, error)
            }
        }
    }
}
