import Operations
import RemoteStorage

/// What was published of a document, as one look at the remote found it.
struct PublishedStores: Sendable {
    /// Every upload that has a manifest.
    var published: [UploadName] = []
    /// Every upload that has a folder; one without a manifest isn't published, or its manifest hasn't arrived.
    var folders: [UploadName] = []
    /// The fixed names that each client has, which TICoreDataSync writes alone and this program besides.
    var fixedNames: [RemoteIdentifier: [WholeStoreFile: RemoteItem]] = [:]
    /// What stands there and means nothing: left by the software that syncs the folder, for example.
    var strangers: [RemotePath] = []

    /// How many manifests of a client are read, the newest first: a client keeps two with what they build on, and those
    /// that none of its others contains.
    static let manifestsRead = 64
    /// How many manifests are under way at a time; each may have some megabytes, if somebody wants to fill the memory.
    private static let manifestsUnderWay = 16

    /// The uploads whose manifests are read, the newest of each client.
    var considered: [UploadName] {
        Dictionary(grouping: published, by: \.client).values.flatMap {
            $0.sorted { ($0.generation, $0.upload) > ($1.generation, $1.upload) }.prefix(Self.manifestsRead)
        }.sorted { ($0.client, $0.generation) < ($1.client, $1.generation) }
    }

    /// The newest upload of each client, as the names say.
    var newest: [UploadName] {
        Dictionary(grouping: published, by: \.client).compactMap { $0.value.max { $0.generation < $1.generation } }
    }

    /// Says of which clients there are more manifests than are read.
    var overlooked: [String] {
        Dictionary(grouping: published, by: \.client).filter { $0.value.count > Self.manifestsRead }
            .sorted { $0.key < $1.key }.map { client, names in
                """
                There are \(names.count) manifests of client \(client); only the \(Self.manifestsRead) with the highest \
                generations were read. No client needs so many: somebody may have put them there.
                """
            }
    }

    /// Looks: one request for the clients, then one for each, together.
    static func list(_ hooks: some WholeStoreHooks, _ hierarchy: DocumentHierarchy) async throws -> PublishedStores {
        let clients = try await hooks.listUploadingClients(hierarchy)
        let lists = try await together(clients) { try await hooks.listUploads(of: $0, hierarchy) }
        var stores = PublishedStores()
        for (client, items) in zip(clients, lists) {
            for item in items { stores.add(item, of: client, hierarchy) }
        }
        return stores
    }

    private mutating func add(_ item: RemoteItem, of client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) {
        if item.kind == .file, let name = UploadName(client: client, manifestName: item.name) {
            published.append(name)
        } else if item.kind == .directory, let name = UploadName(client: client, directoryName: item.name) {
            folders.append(name)
        } else if item.kind == .file, let file = WholeStoreFile(rawValue: item.name) {
            fixedNames[client, default: [:]][file] = item
        } else if let path = try? hierarchy.wholeStores(client).appending(item.name) {
            strangers.append(path)
        }
    }

    /// The highest generation of each client.
    static func highestGenerations(of manifests: [StoreManifest]) -> [String: Int] {
        Dictionary(manifests.map { ($0.name.client.rawValue, $0.name.generation) }, uniquingKeysWith: max)
    }

    /// The published uploads of a client, of those that this device isn't sure of only ones whose manifest can be read: a name
    /// alone says nothing.
    func certain(
        of client: RemoteIdentifier,
        _ key: DocumentKey,
        _ state: StateDirectory,
        _ hooks: some WholeStoreHooks,
        _ document: DocumentRegistration,
        _ context: OperationContext
    ) async throws -> Set<UploadReference> {
        let unsure = try await context.blocking {
            Set(try state.uploads(for: key, client: client.rawValue).filter { !$0.isPublished }.map(\.reference))
        }
        let names = published.filter { $0.client == client && unsure.contains($0.reference) }
        guard !names.isEmpty else { return references(of: client) }
        let (manifests, _) = try await Self.readManifests(names, hooks, document)
        return references(of: client).subtracting(unsure).union(manifests.map(\.name.reference))
    }

    /// The published uploads of one client.
    func references(of client: RemoteIdentifier) -> Set<UploadReference> {
        Set(published.filter { $0.client == client }.map(\.reference))
    }

    /// The clients that have uploaded a store with TICoreDataSync and none with this program.
    var legacyClients: [RemoteIdentifier] {
        let modern = Set(published.map(\.client))
        return fixedNames.filter { $0.value[.store] != nil && !modern.contains($0.key) }.keys.sorted()
    }

    /// Reads manifests of a registered document.
    static func readManifests(
        _ names: [UploadName],
        _ hooks: some WholeStoreHooks,
        _ document: DocumentRegistration
    ) async throws -> (manifests: [StoreManifest], unreadable: [(UploadName, StoreSyncError)]) {
        try await readManifests(names, hooks, document.hierarchy, document.application.seal, document.identity)
    }

    /// Reads manifests, together.
    ///
    /// What is torn or gone is told apart, since it may be still arriving.
    static func readManifests(
        _ names: [UploadName],
        _ hooks: some WholeStoreHooks,
        _ hierarchy: DocumentHierarchy,
        _ seal: ApplicationSeal,
        _ identity: DocumentIdentity
    ) async throws -> (manifests: [StoreManifest], unreadable: [(UploadName, StoreSyncError)]) {
        let results = try await together(names, atMost: manifestsUnderWay) {
            name -> Result<StoreManifest, StoreSyncError>? in
            let path = hierarchy.manifest(name)
            do {
                guard let bytes = try await hooks.fetchManifest(at: path) else { return nil }
                let opened = try seal.open(bytes, as: .manifest(name, of: identity), at: path)
                return .success(try StoreManifest(opened, named: name, at: path))
            } catch let error as StoreSyncError {
                return .failure(error)
            }
        }
        var manifests: [StoreManifest] = []
        var unreadable: [(UploadName, StoreSyncError)] = []
        for (name, result) in zip(names, results) {
            switch result {
            case .success(let manifest): manifests.append(manifest)
            case .failure(let error): unreadable.append((name, error))
            case nil: break
            }
        }
        return (manifests, unreadable)
    }

    /// Those that none of the others contains.
    ///
    /// One is the newest; several hold edits that the others don't.
    static func heads(of manifests: [StoreManifest]) -> [StoreManifest] {
        manifests.filter { manifest in
            !manifests.contains { $0.name != manifest.name && $0.includes(manifest) }
        }.sorted { ($0.name.client, $0.name.generation) < ($1.name.client, $1.name.generation) }
    }
}
