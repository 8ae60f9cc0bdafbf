public import Foundation
public import RemoteStorage
import StoreChanges
import ThreadSupport

extension ApplicationStatus {
    /// How far a client is that synchronizes a document record by record.
    public struct SynchronizingClient: Sendable, Hashable {
        /// The client.
        public let client: RemoteIdentifier
        /// How many times it has published edits.
        public let sequence: UInt64
        /// How many times others have published edits that its store doesn't contain, as it last said.
        ///
        /// A client says so with its next edits, or after a day.
        public let behind: UInt64
        /// When it last published, by its own clock.
        public let published: Date
        /// The size of its edits on the remote, in bytes, without those in its newest file.
        public let logBytes: Int64
        /// Whether it was removed: nothing is kept for it, and it continues as another client if it comes back.
        public let isRemoved: Bool

        /// Whether it has published nothing for thirty days, so that all others keep what it may need.
        public var isSilent: Bool { !isRemoved && published.timeIntervalSinceNow < -30 * 24 * 60 * 60 }

        /// Whether it has published more than a day in the future, so that its clock or this device's is wrong.
        ///
        /// Then it isn't known for how long it has published nothing.
        public var isInFuture: Bool { !isRemoved && published.timeIntervalSinceNow > 24 * 60 * 60 }
    }
}

extension HierarchyReader {
    /// How far the clients of a document are; empty if its devices don't merge records.
    ///
    /// What can't be read is left out: ``VerificationOperation`` names it.
    func synchronizingClients(of entry: Document) async throws -> [ApplicationStatus.SynchronizingClient] {
        let (document, hooks) = (hierarchy.document(entry.document), backend.synchronizationHooks)
        async let listed = hooks.listSyncHeads(document)
        guard let bytes = try await hooks.fetchSyncOrigin(document) else {
            _ = try await listed
            return []
        }
        let names = try await listed.compactMap { SyncHeadName($0) }
        let identity = DocumentIdentity(
            document: entry.document,
            integrityKey: entry.info.value?.integrityKey ?? ""
        )
        let opened = try? seal.open(bytes, as: .syncOrigin(identity), at: document.syncOrigin)
        guard let origin = try? opened.map({ try SyncOrigin($0, at: document.syncOrigin) }) else { return [] }
        let catalog = SyncCatalog(
            hooks: hooks,
            hierarchy: document,
            seal: seal,
            identity: identity,
            origin: origin.identifier
        )
        async let heads = catalog.newestHeads(among: names)
        let clients = Set(names.map(\.client)).sorted()
        let sizes = try await clients.concurrentMap { client in
            try await hooks.listSyncSegments(of: client, document).reduce(Int64(0)) { $0.adding(size: $1.size) }
        }
        let logBytes = Dictionary(zip(clients, sizes)) { first, _ in first }
        return Self.synchronizingClients(try await heads, logBytes)
    }

    private static func synchronizingClients(
        _ heads: [SyncHead],
        _ logBytes: [RemoteIdentifier: Int64]
    ) -> [ApplicationStatus.SynchronizingClient] {
        let removed = Set(heads.flatMap(\.removals.keys))
        return heads.map { head in
            let behind = heads.filter { $0.name.client != head.name.client }.map { other in
                let seen = head.content.seen[other.content.client]?.sequence ?? 0
                return other.name.sequence > seen ? other.name.sequence - seen : 0
            }
            return ApplicationStatus.SynchronizingClient(
                client: head.name.client,
                sequence: head.name.sequence,
                behind: SyncVector.total(behind),
                published: head.published,
                logBytes: logBytes[head.name.client] ?? 0,
                isRemoved: removed.contains(head.name.client.rawValue)
            )
        }.sorted { $0.client < $1.client }
    }
}
