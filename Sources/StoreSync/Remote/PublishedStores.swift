import Foundation
import RemoteStorage
import ThreadSupport

/// The uploads of a document, as one listing of the remote found them.
struct PublishedStores: Sendable {
    /// Every upload that has a manifest, whether or not the manifest opens.
    var published: [UploadName] = []
    /// When the manifests were written, as far as the storage tells.
    var modified: [UploadName: Date] = [:]
    /// Every upload that has a folder; without a manifest, it isn't published, or the manifest hasn't arrived.
    var folders: [UploadName] = []
    /// The files with fixed names of each client: TICoreDataSync writes only these, this program also writes them.
    var fixedNames: [RemoteIdentifier: [WholeStoreFile: RemoteItem]] = [:]
    /// Paths without a meaning, left by the software that syncs the folder, for example.
    var strangers: [RemotePath] = []
    /// The manifests that open: only these count.
    var manifests: [StoreManifest] = []
    /// The manifests that were read and don't open: they are still arriving, damaged or planted.
    var unreadable: [(name: UploadName, error: StoreSyncError)] = []

    /// The maximum number of manifests that are read of each client, the newest first.
    ///
    /// A client keeps two uploads with what they build on, and the uploads that none of its others contains.
    static let manifestsRead = 64
    /// The uploads whose manifests are read, the newest of each client.
    var considered: [UploadName] {
        Dictionary(grouping: published, by: \.client).values.flatMap { $0.sorted(by: >).prefix(Self.manifestsRead) }
            .sorted()
    }

    /// The uploads that have a manifest, readable or not.
    var names: Set<UploadName> { Set(published) }

    /// The newest upload of each client, as the names say.
    var newest: [UploadName] {
        Dictionary(grouping: published, by: \.client).compactMap { $0.value.max() }
    }

    /// The warnings about clients that have more manifests than are read.
    var overlooked: [String] {
        Dictionary(grouping: published, by: \.client).filter { $0.value.count > Self.manifestsRead }
            .sorted { $0.key < $1.key }.map { client, names in
                """
                There are \(names.count) manifests of client \(client); only the \(Self.manifestsRead) with the highest \
                generations were read. No client needs so many: an attacker may have put them there.
                """
            }
    }

    /// Lists the names in two rounds of requests.
    ///
    /// The first lists the clients, and the uploads of the expected clients; the second lists the uploads of other
    /// clients.
    static func list(
        _ hooks: some WholeStoreHooks,
        _ hierarchy: DocumentHierarchy,
        expecting expected: Set<RemoteIdentifier> = []
    ) async throws -> PublishedStores {
        async let ofExpected = expected.concurrentMap { ($0, try await hooks.listUploads(of: $0, hierarchy)) }
        let others = try await hooks.listUploadingClients(hierarchy).filter { !expected.contains($0) }
        let ofOthers = try await others.concurrentMap { ($0, try await hooks.listUploads(of: $0, hierarchy)) }
        var stores = PublishedStores()
        for (client, items) in try await ofExpected + ofOthers {
            for item in items { stores.add(item, of: client, hierarchy) }
        }
        return stores
    }

    private mutating func add(_ item: RemoteItem, of client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) {
        if let name = UploadName(client: client, listed: item) {
            guard item.kind == .file else { return folders.append(name) }
            published.append(name)
            modified[name] = item.modified
        } else if item.kind == .file, let file = WholeStoreFile(rawValue: item.name) {
            fixedNames[client, default: [:]][file] = item
        } else if let path = try? hierarchy.wholeStores(client).appending(item.name) {
            strangers.append(path)
        }
    }

    /// The clients that have uploaded a store with TICoreDataSync and none with this program.
    ///
    /// A client with a folder of an upload isn't one of them: the upload's manifest hasn't arrived, or is hidden.
    var legacyClients: [RemoteIdentifier] {
        let modern = Set((published + folders).map(\.client))
        return fixedNames.filter { $0.value[.store] != nil && !modern.contains($0.key) }.keys.sorted()
    }
}
