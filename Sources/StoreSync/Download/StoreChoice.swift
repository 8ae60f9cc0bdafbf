import ContentDigests
import Foundation
import RemoteStorage
import SyncCryptography

/// A whole store on the remote that can be downloaded.
struct StoreSource: Sendable {
    var client: RemoteIdentifier
    var directory: RemotePath
    /// Its manifest; `nil` for a store that TICoreDataSync wrote.
    var manifest: StoreManifest? { chain?.head }
    /// The manifest, and the manifests of the uploads that it builds on.
    var chain: StoreChain?
    var files: Set<WholeStoreFile>
    var totalBytes: Int64
    var generation: Int { manifest?.name.generation ?? 0 }
    var contentRoot: ContentRoot? { manifest?.store.contentRoot }
    var storedBytes: Int64? { chain?.storedBytes }
}

/// Finds the store to download: the newest that is complete on the remote, or the upload that the user names.
struct StoreChoice: Sendable {
    let hooks: any WholeStoreDownloadHooks
    let document: DocumentRegistration
    let published: PublishedStores
    /// The upload to download; the newest of all if this is `nil`.
    let wanted: WholeStoreDownloadRequest.Upload?

    private(set) var warnings: [String] = []
    /// The manifests that open, and whose files have arrived as far as this was checked.
    private(set) var manifests: [StoreManifest]
    private var incomplete: [UploadName] = []
    private var corruption: StoreSyncError?

    init(
        hooks: any WholeStoreDownloadHooks,
        document: DocumentRegistration,
        published: PublishedStores,
        wanted: WholeStoreDownloadRequest.Upload?
    ) {
        self.hooks = hooks
        self.document = document
        self.published = published
        self.wanted = wanted
        manifests = published.manifests
    }

    /// Returns the store to download.
    ///
    /// - Throws: ``StoreSyncError/Code/diverged`` if there are several heads, ``StoreSyncError/Code/noUploadedStore`` if there
    ///   is no store, ``StoreSyncError/Code/corrupt`` if the only one can't be read.
    mutating func source() async throws -> StoreSource {
        warnings += published.overlooked
        for (name, error) in published.unreadable {
            // What isn't authentic may be damaged or planted, and says nothing of this program's age.
            if error.code == .unsupportedFormat, !(error.cause is CryptographyError) { throw error }
            corruption = error
            let reason =
                error.code == .unsupportedFormat
                ? "is damaged, or a newer version of this program wrote it: then update this one"
                : "hasn't fully arrived, or is damaged"
            warnings.append("The manifest of \(name) \(reason). It isn't used.")
        }
        while true {
            let candidates = candidates
            let (complete, partial) = try await partition(candidates)
            if complete.count == candidates.count { return try await choose(among: complete) }
            // A manifest whose files haven't arrived counts as not arrived. Then an upload that it includes may be the
            // newest.
            incomplete += partial.map(\.name)
            manifests.removeAll { manifest in
                candidates.contains(manifest) && !complete.contains { $0.head == manifest }
            }
            warnings += partial.map { "The files of \($0.name) have not all arrived. It isn't used." }
        }
    }

    /// Returns the missing uploads, newer than the source or beside it, that other devices have seen.
    ///
    /// They are still arriving, or hidden.
    func witnessed(beside source: StoreManifest) -> [UploadName] {
        var seen = Lineage.witnessed(by: manifests)
        if let wanted {
            let named = manifests.reduce(into: Set<UploadName>()) { $0.formUnion($1.includes.union($1.otherHeads)) }
            seen = named.filter { $0.client == wanted.client && $0 > source.name }
        }
        return seen.subtracting(published.manifests.map(\.name)).sorted(by: >)
    }

    /// Returns the newest upload that a listing shows as complete on the remote and that needs no damaged upload.
    func completeUpload(besides damaged: UploadName) async -> UploadName? {
        for manifest in manifests.sorted(by: { $0.name > $1.name }) where manifest.name != damaged {
            guard let chain = try? StoreChain(manifest, among: manifests),
                !chain.references.contains(damaged.reference), (try? await isComplete(chain)) == true
            else { continue }
            return manifest.name
        }
        return nil
    }

    /// Returns whether all files of an upload have arrived, as far as their sizes show it.
    func isComplete(_ name: UploadName) async throws -> Bool {
        guard let manifest = manifests.first(where: { $0.name == name }),
            let chain = try? StoreChain(manifest, among: manifests)
        else { return false }
        return try await isComplete(chain)
    }

    private func isComplete(_ chain: StoreChain) async throws -> Bool {
        try await chain.isComplete(catalog.files(of: chain.manifests.map(\.name)))
    }

    private var catalog: UploadCatalog { UploadCatalog(hooks, document) }
    private var hierarchy: DocumentHierarchy { document.hierarchy }
    private var seal: ApplicationSeal { document.application.seal }

    private var candidates: [StoreManifest] {
        guard let wanted else { return Lineage.heads(of: manifests) }
        let named = manifests.filter { wanted.matches($0.name) }
        guard let newest = named.map(\.name.generation).max() else { return [] }
        return named.filter { $0.name.generation == newest }
    }

    /// Separates the uploads that are complete, with all that they build on, from incomplete ones.
    ///
    /// An upload that doesn't fit the upload that it builds on, or with a file that is too large, is in neither list.
    private mutating func partition(
        _ candidates: [StoreManifest]
    ) async throws -> (complete: [StoreChain], partial: [StoreManifest]) {
        var result: (complete: [StoreChain], partial: [StoreManifest]) = ([], [])
        var chains: [StoreChain] = []
        for head in candidates {
            guard seal.isEncrypted || !head.isDelta else {
                noteMisfit(head)
                continue
            }
            do throws(StoreChain.Failure) {
                chains.append(try StoreChain(head, among: manifests))
            } catch {
                switch error {
                case .notArrived: result.partial.append(head)
                case .misfit: noteMisfit(head)
                }
            }
        }
        let lists = try await catalog.files(of: Array(Set(chains.flatMap(\.manifests).map(\.name))))
        for chain in chains {
            if chain.isComplete(lists) {
                result.complete.append(chain)
            } else if let path = chain.oversizedFile(lists, in: hierarchy) {
                noteOversized(path, of: chain.head)
            } else {
                result.partial.append(chain.head)
            }
        }
        return result
    }

    private mutating func noteMisfit(_ head: StoreManifest) {
        corruption = .corrupt(hierarchy.manifest(head.name), "it doesn't fit the upload that it builds on")
        warnings.append("The manifest of \(head.name) doesn't fit the upload that it builds on. It isn't used.")
    }

    private mutating func noteOversized(_ path: RemotePath, of head: StoreManifest) {
        corruption = .oversized(path)
        warnings.append("\(path) is larger than what was uploaded, so \(head.name) isn't used.")
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
        if let newest = newestBaseline(among: chains) { return try await choose(among: [newest]) }
        guard heads.isEmpty else { throw diverged(heads) }
        // The fixed names of an unencrypted tree mean nothing in a sealed tree, where this program never writes them.
        if !seal.isEncrypted, let legacy = legacySource() { return legacy }
        guard published.overlooked.isEmpty else {
            let overlooked = published.overlooked.joined(separator: " ")
            throw StoreSyncError(
                .tampered,
                "\(overlooked) None of them opens. Remove what doesn't belong there (verify names it), or restore the remote from a backup."
            )
        }
        if let corruption, incomplete.isEmpty { throw corruption }
        throw noUploadedStore
    }

    /// Returns the newest of several baselines; `nil` if any isn't one.
    ///
    /// Two devices wrote them at once. Their stores lack nothing for good, because records are merged.
    private func newestBaseline(among chains: [StoreChain]) -> StoreChain? {
        let baselines = chains.compactMap { chain in
            chain.head.synchronized.map { (chain: chain, sets: SyncVector.total($0.vector.values), origin: $0.origin) }
        }
        guard baselines.count == chains.count, Set(baselines.map(\.origin)).count == 1 else { return nil }
        return baselines.max { ($0.sets, $0.chain.head.name) < ($1.sets, $1.chain.head.name) }?.chain
    }

    private func diverged(_ heads: [StoreManifest]) -> StoreSyncError {
        let names = heads.map { "\($0.name)" }.joined(separator: " and ")
        guard wanted == nil else {
            let uploads = heads.map(\.name.directoryName).joined(separator: " or ")
            return StoreSyncError(
                .diverged,
                "There are several uploads of \(heads[0].name), since several devices use that client's identity. Name one: --generation \(uploads)."
            )
        }
        return StoreSyncError(
            .diverged,
            """
            Several stores hold edits that none of the others holds: \(names). Pull one with --from CLIENT --generation N, \
            export what you need from the others, then push with --resolves.
            """
        )
    }

    /// The newest upload that lacks files, or whose folder is there without its manifest.
    private var newestArriving: UploadName? {
        if let newest = incomplete.max() { return newest }
        guard wanted?.generation == nil else { return nil }
        let folders = Set(published.folders).subtracting(published.published)
        return folders.filter { $0.client == wanted?.client ?? $0.client }.max()
    }

    private var noUploadedStore: StoreSyncError {
        if let newestArriving {
            return StoreSyncError(
                .noUploadedStore,
                """
                \(newestArriving.atStart) hasn't arrived completely. Pull again later; if that doesn't help, storesync \
                verify says what is missing, and push --whole from a device that has the store replaces it.
                """
            )
        }
        guard let wanted else {
            return StoreSyncError(
                .noUploadedStore,
                """
                No client has uploaded a store of \(hierarchy.document) yet, or it is still arriving. Push one first, or pull \
                again later.
                """
            )
        }
        let generations = published.manifests.map(\.name).filter { $0.client == wanted.client }.sorted()
            .map { "\($0.generation)" }.joined(separator: ", ")
        return StoreSyncError(
            .noUploadedStore,
            generations.isEmpty
                ? """
                Client \(wanted.client) has uploaded no store of \(hierarchy.document), or it is still arriving: pull again \
                later. storesync status lists the stores.
                """
                : "\(wanted) of \(hierarchy.document) isn't on the remote. That client's generations there: \(generations)."
        )
    }

    // MARK: Trees of TICoreDataSync

    private mutating func noteLegacyClients() {
        guard wanted == nil, !seal.isEncrypted else { return }
        for client in published.legacyClients {
            warnings.append(
                "Client \(client) uploads with TICoreDataSync. Its store is used with --from \(client) only."
            )
        }
    }

    /// Returns the store that TICoreDataSync wrote last, by the file's time, since nothing else tells.
    private mutating func legacySource() -> StoreSource? {
        guard wanted?.generation == nil else { return nil }
        let clients = published.legacyClients.filter { wanted == nil || $0 == wanted?.client }
        let newest = clients.max { modified($0) < modified($1) }
        guard let newest, let files = published.fixedNames[newest] else { return nil }
        if clients.count > 1 {
            warnings.append(
                "Several clients uploaded with TICoreDataSync. The store with the latest time, of client \(newest), is used."
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
