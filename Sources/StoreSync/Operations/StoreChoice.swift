import Foundation
import RemoteStorage
import SyncCryptography

/// A whole store on the remote that can be downloaded.
struct StoreSource: Sendable {
    var client: RemoteIdentifier
    var directory: RemotePath
    /// What publishes it; none for one that TICoreDataSync wrote.
    var manifest: StoreManifest? { chain?.head }
    /// The manifest, and those of the uploads that it builds on.
    var chain: StoreChain?
    var files: Set<WholeStoreFile>
    var totalBytes: Int64
    var generation: Int { manifest?.name.generation ?? 0 }
    var contentRoot: ContentRoot? { manifest?[.store]?.contentRoot }
    var storedBytes: Int64? { chain?.storedBytes }
}

/// Finds the store to download: the newest that has arrived whole, or one client's.
struct StoreChoice {
    let hooks: any WholeStoreDownloadHooks
    let document: DocumentRegistration
    let published: PublishedStores
    /// Whose store is wanted; anybody's newest where this is `nil`.
    let client: RemoteIdentifier?

    private(set) var warnings: [String] = []
    private var manifests: [StoreManifest] = []
    private var incomplete: [UploadName] = []
    private var corruption: StoreSyncError?

    init(
        hooks: any WholeStoreDownloadHooks,
        document: DocumentRegistration,
        published: PublishedStores,
        client: RemoteIdentifier?
    ) {
        self.hooks = hooks
        self.document = document
        self.published = published
        self.client = client
    }

    /// The store to download.
    ///
    /// - Throws: ``StoreSyncError/Code/diverged`` if several are the newest, ``StoreSyncError/Code/noUploadedStore`` if there
    ///   is none, ``StoreSyncError/Code/corrupt`` if there is none but one that can't be read.
    mutating func newest() async throws -> StoreSource {
        let (manifests, unreadable) = try await PublishedStores.readManifests(
            published.considered,
            hooks,
            document
        )
        self.manifests = manifests
        warnings += published.overlooked
        for (name, error) in unreadable {
            if error.code == .unsupportedFormat { throw error }
            corruption = error
            warnings.append("The manifest of \(name) has not arrived whole; an older store is taken if there is one.")
        }
        while true {
            let heads = candidates
            let (whole, torn) = try await partition(heads)
            if whole.count == heads.count { return try await choose(among: whole) }
            // A manifest whose files haven't arrived counts as not arrived itself: what it contains may be the newest.
            incomplete += torn.map(\.name)
            self.manifests.removeAll { manifest in
                heads.contains(manifest) && !whole.contains { $0.head == manifest }
            }
            warnings += torn.map {
                "The files of \($0.name) have not all arrived; an older store is taken if there is one."
            }
        }
    }

    /// The highest generation of a client that anybody says to have seen.
    func highestWitnessed(of client: RemoteIdentifier) -> Int {
        manifests.map {
            max($0.seen[client.rawValue] ?? 0, $0.includes.highestGeneration(of: client.rawValue) ?? 0)
        }.max() ?? 0
    }

    private var hierarchy: DocumentHierarchy { document.hierarchy }
    private var seal: ApplicationSeal { document.application.seal }

    private var candidates: [StoreManifest] {
        guard let client else { return PublishedStores.heads(of: manifests) }
        let own = manifests.filter { $0.name.client == client }
        return own.max { $0.name.generation < $1.name.generation }.map { [$0] } ?? []
    }

    /// Those of which all files have arrived, also of what they build on, and those of which not.
    ///
    /// One that doesn't fit on what it builds on is neither.
    private mutating func partition(
        _ heads: [StoreManifest]
    ) async throws -> (whole: [StoreChain], torn: [StoreManifest]) {
        var result: (whole: [StoreChain], torn: [StoreManifest]) = ([], [])
        var chains: [StoreChain] = []
        for head in heads {
            guard seal.isEncrypted || !head.isDelta else {
                noteMisfit(head)
                continue
            }
            do throws(StoreChain.Failure) {
                chains.append(try StoreChain(head, among: manifests))
            } catch {
                switch error {
                case .notArrived: result.torn.append(head)
                case .misfit: noteMisfit(head)
                }
            }
        }
        let names = Array(Set(chains.flatMap(\.manifests).map(\.name)))
        let listed = try await together(names) { [hooks, hierarchy] in
            try await hooks.listFiles(in: hierarchy.upload($0)) ?? []
        }
        let lists = Dictionary(zip(names, listed), uniquingKeysWith: { first, _ in first })
        for chain in chains {
            if chain.isWhole(lists) { result.whole.append(chain) } else { result.torn.append(chain.head) }
        }
        return result
    }

    private mutating func noteMisfit(_ head: StoreManifest) {
        corruption = .corrupt(hierarchy.manifest(head.name), "it doesn't fit on what it builds on")
        warnings.append(
            "The manifest of \(head.name) doesn't fit on what it builds on; an older store is taken if there is one."
        )
    }

    private mutating func choose(among chains: [StoreChain]) async throws -> StoreSource {
        let heads = chains.map(\.head)
        if let head = heads.first, chains.count == 1 {
            noteLegacyClients()
            return StoreSource(
                client: head.name.client,
                directory: hierarchy.upload(head.name),
                chain: chains[0],
                files: Set(head.files.map(\.file)),
                totalBytes: chains[0].storedBytes
            )
        }
        guard heads.isEmpty else {
            let names = heads.map { "\($0.name)" }.joined(separator: " and ")
            throw StoreSyncError(
                .diverged,
                "Several stores hold edits that none of the others holds: \(names). Choose one with --from and push it, or export what you need from each first."
            )
        }
        // The fixed names of an unencrypted tree mean nothing in one that is sealed: nobody we know wrote them.
        if !seal.isEncrypted, let legacy = legacySource() { return legacy }
        guard published.overlooked.isEmpty else {
            let overlooked = published.overlooked.joined(separator: " ")
            throw StoreSyncError(
                .tampered,
                "\(overlooked) None of them opens. Remove what doesn't belong there (verify names it), or restore the remote from a backup."
            )
        }
        if let corruption, incomplete.isEmpty { throw corruption }
        let whose = client.map { "Client \($0) has" } ?? "Nobody has"
        throw StoreSyncError(
            .noUploadedStore,
            incomplete.isEmpty
                ? "\(whose) uploaded a store of \(hierarchy.document) yet. Push one first."
                : "No uploaded store of \(hierarchy.document) has arrived whole. Try again later."
        )
    }

    // MARK: Trees of TICoreDataSync

    private mutating func noteLegacyClients() {
        guard client == nil, !seal.isEncrypted else { return }
        for client in published.legacyClients {
            warnings.append(
                "Client \(client) uploads with TICoreDataSync; its store is taken with --from \(client) only."
            )
        }
    }

    /// The store that TICoreDataSync wrote last: by its time, since it says nothing else.
    private mutating func legacySource() -> StoreSource? {
        let clients = published.legacyClients.filter { client == nil || $0 == client }
        let newest = clients.max { modified($0) < modified($1) }
        guard let newest, let files = published.fixedNames[newest] else { return nil }
        if clients.count > 1 {
            warnings.append(
                "Several clients uploaded with TICoreDataSync; the one with the latest time, \(newest), is taken."
            )
        }
        return StoreSource(
            client: newest,
            directory: hierarchy.wholeStores(newest),
            chain: nil,
            files: Set(files.keys),
            totalBytes: files.values.reduce(0) { $0 + $1.size }
        )
    }

    private func modified(_ client: RemoteIdentifier) -> Date {
        published.fixedNames[client]?[.store]?.modified ?? .distantPast
    }
}
