import Foundation
import GRDB
import RemoteStorage
import StoreChanges

/// What this device remembers of synchronizing a document, besides its replica.
struct SynchronizationMemory: Hashable, Sendable, Codable {
    /// The document's origin.
    var origin: UUID
    /// The number of the last head that this device began to publish.
    var number: UInt64 = 0
    /// The number of the last own set that was published; `nil` before the first head.
    var sequence: UInt64?
    /// The names of this device's heads that may be on the remote, the newest last.
    var heads: [String] = []
    /// This device's files with older change sets.
    var segments: [SyncSegment] = []
    /// The newest head that was read of each other client, by client.
    var others: [String: Head] = [:]

    /// A head of another client.
    struct Head: Hashable, Sendable, Codable {
        var name: String
        var number: UInt64
        var sequence: UInt64
    }

    init(origin: UUID) { self.origin = origin }
}

extension StateDirectory {
    /// What this device remembers of synchronizing the document with an integrity key; `nil` if it never did.
    func synchronization(of key: DocumentKey, _ integrityKey: String) throws -> SynchronizationMemory? {
        try read { try StateSchema.fetch(SynchronizationMemory.self, $0, "synchronization \(integrityKey)", key) }
    }

    /// Remembers how far synchronizing a document is.
    func setSynchronization(_ memory: SynchronizationMemory, of key: DocumentKey, _ integrityKey: String) throws {
        guard try synchronization(of: key, integrityKey) != memory else { return }
        try write("synchronization") { try StateSchema.save(memory, $0, "synchronization \(integrityKey)", key) }
    }

    /// The replica of a document's store.
    func replica(of key: DocumentKey, since origin: UUID) -> URL {
        replicas.appending(path: key.fileName(origin.uuidString) + ".sqlite")
    }

    private var replicas: URL { url.appending(path: "replicas", directoryHint: .isDirectory) }

    /// Creates the directory of all replicas, which are as secret as the stores.
    func makeReplicaDirectory() throws {
        do {
            try FileManager.default.createDirectory(
                at: replicas,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw StoreSyncError(writing: replicas, error)
        }
    }
}
