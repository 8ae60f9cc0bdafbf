import Foundation
import GRDB
import RemoteStorage
import StoreChanges
import ThreadSupport

/// Which of a store's documents is meant.
enum SynchronizedDocument: Sendable {
    /// The only one.
    case any
    /// The only one of a name.
    case named(RemoteIdentifier)
    /// A document at a remote.
    case of(DocumentKey)
}

extension StateDirectory {
    /// Calls `body` with a store that this device has synchronized, without the remote.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - document: The document, if the store belongs to several.
    ///   - app: The app's connection to the store, through which the store is written; `nil` for a connection of its own.
    ///   - body: Uses the store.
    /// - Returns: What `body` returns.
    /// - Throws: ``StoreSyncError``, with `storeNotFound` if the store doesn't exist or was never synchronized, and
    ///   `documentNotFound` if it belongs to several documents that may be meant.
    func withSynchronizedStore<Result: Sendable>(
        at url: URL,
        of document: SynchronizedDocument,
        through app: (any DatabaseWriter)?,
        _ body: @escaping @Sendable (SynchronizedStore) throws -> Result
    ) async throws -> Result {
        try await runBlocking(on: nil) { [self] in
            try StoreSyncError.translating {
                if let app { try StoreConnection.check(app) }
                let replica = try replica(ofStoreAt: url, of: document)
                let options = SynchronizedStore.Options(app: app, requiresReplica: true, now: now)
                return try body(
                    SynchronizedStore(storeAt: url, replicaAt: replica.url, replica.identity, options: options)
                )
            }
        }
    }

    private func replica(
        ofStoreAt store: URL,
        of document: SynchronizedDocument
    ) throws -> (url: URL, identity: SynchronizedStore.Identity) {
        let replicas = try SynchronizedStore.replicas(ofStoreAt: store, among: replicas())
        let found = replicas.found.filter { url, identity in
            switch document {
            case .any: true
            case .named(let name): identity.document == name.rawValue
            case .of(let key): url.lastPathComponent == replicaName(of: key, since: identity.origin)
            }
        }
        guard let replica = found.first else { throw document.notFound(store, damaged: replicas.damaged) }
        if case .of = document { return replica }
        // A damaged one may be meant.
        guard replicas.damaged.isEmpty || replicas.found.count == replicas.documentCount else {
            throw document.notFound(store, damaged: replicas.damaged)
        }
        guard found.count == 1 else { throw document.ambiguity(of: store, among: found.map(\.identity.document)) }
        return replica
    }
}

extension SynchronizedDocument {
    fileprivate func notFound(_ store: URL, damaged: [URL]) -> StoreSyncError {
        let what =
            switch self {
            case .any: "synchronized"
            case .named(let name): "synchronized with \(name)"
            case .of(let key): "synchronized with \(key.document)"
            }
        let reason = "\(store.path) was never \(what) on this device, or is a copy or a backup"
        guard damaged.isEmpty else {
            let paths = damaged.map(\.path).joined(separator: ", ")
            return StoreSyncError(
                .corrupt,
                """
                \(reason); or its record is one of the damaged files \(paths). If this device has synchronized it, do that \
                with --rebuild.
                """
            )
        }
        return StoreSyncError(.storeNotFound, "\(reason). Synchronize it first, or name its state directory.")
    }

    fileprivate func ambiguity(of store: URL, among documents: [String]) -> StoreSyncError {
        let names = Set(documents).sorted()
        guard names.count > 1 else {
            return StoreSyncError(
                .documentNotFound,
                """
                \(store.path) belongs to documents named \(names[0]) at several remotes or of several applications. Only its app \
                can tell them apart, by DocumentSyncManager.
                """
            )
        }
        return StoreSyncError(
            .documentNotFound,
            "\(store.path) belongs to several documents: \(names.joined(separator: ", ")). Name one with --document."
        )
    }
}
