import Foundation
import RemoteStorage
import StoreChanges
import ThreadSupport

/// The heads of a document's clients, and the files with their older change sets.
struct SyncCatalog: Sendable {
    let hooks: any SynchronizationHooks
    let hierarchy: DocumentHierarchy
    let seal: ApplicationSeal
    /// The identity that the document's files are sealed for.
    let identity: DocumentIdentity
    /// The document's origin, to which heads and segments belong.
    let origin: UUID

    /// The maximum number of files read at a time, since each may be large.
    private static let filesAtATime = 8
    /// How often a head that was replaced meanwhile is looked up again.
    private static let maximumListings = 4

    /// The heads that the remote lists.
    struct Listing: Sendable {
        /// The heads of this client.
        var own: [SyncHeadName] = []
        /// The newest head of each other client.
        var others: [SyncHeadName] = []
    }

    /// Lists the heads.
    func list(for client: RemoteIdentifier) async throws -> Listing {
        var listing = Listing()
        let names = try await hooks.listSyncHeads(hierarchy).compactMap { SyncHeadName($0) }
        for (other, names) in Dictionary(grouping: names, by: \.client).sorted(by: { $0.key < $1.key }) {
            if other == client {
                listing.own = names
            } else if let newest = names.max(by: { ($0.number, $0.unique) < ($1.number, $1.unique) }) {
                listing.others.append(newest)
            }
        }
        return listing
    }

    // MARK: News

    /// What other clients have published.
    struct News: Sendable {
        var sets: [SyncChangeSet] = []
        /// The heads that name the sets.
        var heads: [SyncHead] = []
        /// The heads of this client that the remote has.
        var own: [SyncHeadName] = []

        /// What the heads say of the log.
        var log: LogNews {
            var news = LogNews()
            news.heads = heads.map(\.content)
            return news
        }
    }

    /// Fetches the change sets of other clients that this device doesn't have.
    ///
    /// - Parameters:
    ///   - client: This client.
    ///   - known: The last set of each client that this device has.
    ///   - memory: What this device remembers of heads.
    /// - Returns: The sets.
    /// - Throws: ``StoreSyncError``, with `rolledBack` if a client's head is older than a head that was read before.
    func news(
        for client: RemoteIdentifier,
        besides known: [ClientID: SeenSet],
        _ memory: SynchronizationMemory
    ) async throws -> News {
        var news = News()
        for _ in 0..<Self.maximumListings {
            let listing = try await list(for: client)
            news.own = listing.own
            // A copy of this device, or the device before it was restored from a backup, published other own heads.
            let strange = listing.own.filter { !memory.heads.contains($0.name) }
            let names = try listing.others.filter { try isNews($0, memory) } + strange
            let heads = try await names.concurrentMap(atMost: Self.filesAtATime) { try await head($0) }
            news.heads = heads.compactMap(\.self)
            // A head that its client has replaced since the listing isn't there any more, but the next one is.
            guard news.heads.count < names.count else { break }
        }
        news.sets = try await news.heads.concurrentMap(atMost: Self.filesAtATime) { head in
            try await sets(of: head, after: known[head.content.client])
        }.flatMap(\.self)
        return news
    }

    private func isNews(_ name: SyncHeadName, _ memory: SynchronizationMemory) throws -> Bool {
        guard let former = memory.others[name.client.rawValue] else { return true }
        guard former.number <= name.number, former.sequence <= name.sequence else {
            throw StoreSyncError(
                .rolledBack,
                """
                Client \(name.client) has published more than \(hierarchy.recentSyncs) on the remote shows now: that is \
                still arriving, or the storage was put back to an older state. Wait until everything has arrived; if \
                the error stays, synchronize on that client.
                """
            )
        }
        return former.name != name.name
    }

    /// Reads a head; `nil` if it isn't there any more.
    private func head(_ name: SyncHeadName) async throws -> SyncHead? {
        let path = hierarchy.syncHead(name)
        guard let bytes = try await hooks.fetchSyncFile(at: path) else { return nil }
        let head = try SyncHead(
            open(bytes, as: .syncHead(name, since: origin, of: identity), at: path),
            named: name,
            at: path
        )
        guard head.origin == origin else {
            throw StoreSyncError.corrupt(path, "it belongs to a former document of that name")
        }
        return head
    }

    /// The sets that a head names, after the last set that this device has.
    ///
    /// If they don't follow that one, another device has published sets as the same client: then it's all of them.
    private func sets(of head: SyncHead, after known: SeenSet?) async throws -> [SyncChangeSet] {
        guard head.content.last != known else { return [] }
        let sets = try await sets(of: head, after: known?.sequence ?? 0)
        let isContinued = sets.first?.header.predecessor == known?.digest ?? SetDigest.none
        return isContinued ? sets : try await self.sets(of: head, after: 0)
    }

    private func sets(of head: SyncHead, after last: UInt64) async throws -> [SyncChangeSet] {
        let client = head.name.client
        let segments = head.segments.filter { $0.last > last }
        let older = try await segments.concurrentMap(atMost: Self.filesAtATime) { segment in
            let path = hierarchy.syncSegment(segment, of: client)
            guard let bytes = try await hooks.fetchSyncFile(at: path) else {
                throw StoreSyncError(
                    .remoteUnavailable,
                    "\(path) on the remote has not arrived, but a newer file names it. Try again later."
                )
            }
            let role = ApplicationSeal.Role.syncSegment(segment, by: client, since: origin, of: identity)
            let opened = try open(bytes, as: role, at: path)
            return try EncodedSets.decode(opened[...], segment.first..<segment.last + 1, of: client, at: path)
        }
        return (older.flatMap(\.self) + head.tail).filter { $0.header.id.sequence > last }
    }

    private func open(_ bytes: [UInt8], as role: ApplicationSeal.Role, at path: RemotePath) throws -> [UInt8] {
        try seal.open(bytes, as: role, at: path, upTo: SyncFileName.maximumBytes)
    }

    // MARK: Publishing

    /// Creates a file with older change sets of a client.
    func create(_ segment: SyncSegment, _ sets: [SyncChangeSet], by client: RemoteIdentifier) async throws -> Int {
        let role = ApplicationSeal.Role.syncSegment(segment, by: client, since: origin, of: identity)
        let sealed = seal.seal(EncodedSets.encode(sets.map(\.encoded)), as: role)
        try await create(sealed, at: hierarchy.syncSegment(segment, of: client))
        return sealed.count
    }

    /// Creates a head.
    func create(_ head: SyncHead) async throws -> Int {
        let sealed = seal.seal(head.bytes, as: .syncHead(head.name, since: origin, of: identity))
        try await create(sealed, at: hierarchy.syncHead(head.name))
        return sealed.count
    }

    private func create(_ sealed: [UInt8], at path: RemotePath) async throws {
        guard try await hooks.createSyncFile(sealed, at: path) else {
            throw StoreSyncError(.busy, "Another file is at \(path) on the remote. Synchronize again.")
        }
    }
}
