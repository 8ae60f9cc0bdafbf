import RemoteStorage
import ThreadSupport

/// The manifests of some uploads; missing ones are left out.
///
/// Manifests that don't open are separate, since they may still be arriving.
typealias ReadManifests = (manifests: [StoreManifest], unreadable: [(name: UploadName, error: StoreSyncError)])

/// Reads which stores have been uploaded to a document.
struct UploadCatalog: Sendable {
    let hooks: any WholeStoreHooks
    let hierarchy: DocumentHierarchy
    let seal: ApplicationSeal
    /// The identity that the document's files are sealed for.
    let identity: DocumentIdentity

    /// The maximum number of manifests read at a time: an attacker may make each megabytes large to fill the memory.
    private static let manifestsAtATime = 16

    /// Lists the names of all uploads, and reads their manifests.
    ///
    /// - Parameter expected: The clients that are expected there: their uploads are listed in the first round of
    ///   requests.
    /// - Returns: The uploads.
    /// - Throws: What the hooks throw.
    func read(expecting expected: Set<RemoteIdentifier> = []) async throws -> PublishedStores {
        var stores = try await PublishedStores.list(hooks, hierarchy, expecting: expected)
        (stores.manifests, stores.unreadable) = try await manifests(of: stores.considered)
        return stores
    }

    /// Reads manifests, some at a time.
    func manifests(of names: [UploadName]) async throws -> ReadManifests {
        let results = try await names.concurrentMap(atMost: Self.manifestsAtATime) {
            name -> Result<StoreManifest, StoreSyncError>? in
            let path = hierarchy.manifest(name)
            do {
                guard let bytes = try await hooks.fetchManifest(at: path) else { return nil }
                return .success(try seal.manifest(bytes, named: name, of: identity, at: path))
            } catch let error as StoreSyncError {
                return .failure(error)
            }
        }
        var read: ReadManifests = ([], [])
        for (name, result) in zip(names, results) {
            switch result {
            case .success(let manifest): read.manifests.append(manifest)
            case .failure(let error): read.unreadable.append((name, error))
            case nil: break
            }
        }
        return read
    }

    /// Lists the files of uploads, with their sizes.
    func files(of names: [UploadName]) async throws -> [UploadName: [RemoteItem]] {
        let listed = try await names.concurrentMap { try await hooks.listFiles(in: hierarchy.upload($0)) ?? [] }
        return Dictionary(zip(names, listed), uniquingKeysWith: { first, _ in first })
    }
}

extension UploadCatalog {
    /// Reads the uploads of a registered document.
    init(_ hooks: any WholeStoreHooks, _ document: DocumentRegistration) {
        self.init(
            hooks: hooks,
            hierarchy: document.hierarchy,
            seal: document.application.seal,
            identity: document.identity
        )
    }
}
