import Operations
import RemoteStorage
import SyncCryptography

/// What a push can build on: the last one, of which the remote holds just what this device remembers.
struct DeltaBase: Sendable {
    let chain: StoreChain
    let blocks: PushedBlocks

    /// Looks for it, in one round of requests.
    ///
    /// - Returns: `nil` if the application isn't sealed, nothing is remembered, or the remote has anything else.
    static func find(
        _ file: PushedBlocks.File,
        of document: DocumentRegistration,
        _ key: DocumentKey,
        _ hooks: any WholeStoreHooks,
        relyingOn trust: UploadTrust,
        _ context: OperationContext
    ) async throws -> DeltaBase? {
        guard let epoch = document.application.seal.key?.epoch,
            let blocks = try await context.blocking({ file.read() })
        else { return nil }
        let subject = blocks.subject
        guard subject.epoch == epoch, subject.document == key, let client = try? RemoteIdentifier(subject.client) else {
            return nil
        }
        let hierarchy = document.hierarchy
        let names = subject.uploads.compactMap {
            UploadName(client: client, directoryName: "\($0.generation)-\($0.upload)")
        }
        do {
            async let listed = together(names) { try await hooks.listFiles(in: hierarchy.upload($0)) ?? [] }
            let (manifests, _) = try await PublishedStores.readManifests(names, hooks, document)
            let lists = Dictionary(zip(names, try await listed), uniquingKeysWith: { first, _ in first })
            guard let head = manifests.first(where: { $0.name == names.last }),
                let chain = try? StoreChain(head, among: manifests), chain.references == subject.uploads,
                head[.store]?.contentRoot.description == subject.contentRoot,
                head[.store]?.size == subject.byteCount, chain.isWhole(lists, trust)
            else { return nil }
            return DeltaBase(chain: chain, blocks: blocks)
        } catch is RemoteError {
            // What it would be built on can't be reached; whether a whole copy can, that shows.
            return nil
        }
    }

    /// The push that is built on.
    var name: UploadName { chain.head.name }
}

/// What this device knows of uploads that are on the remote, besides what their manifests say.
struct UploadTrust: Sendable {
    /// Uploads of which verification found that a file is missing or damaged.
    var damaged: Set<UploadName> = []
    /// The tags of the files that this device has sent, by their names.
    var tags: [UploadName: [String: RemoteTag]] = [:]
}

extension StoreChain {
    /// Whether all files have arrived that make up the store, as far as a listing shows it.
    ///
    /// - Parameters:
    ///   - lists: What is in the folders of the uploads.
    ///   - trust: What this device knows of them.
    /// - Returns: Whether each has the size that its manifest says, and the tag that it was sent with.
    func isWhole(_ lists: [UploadName: [RemoteItem]], _ trust: UploadTrust = UploadTrust()) -> Bool {
        broken(lists, trust).isEmpty
    }

    /// The uploads of the chain that can't be put together: the first of which a file is missing or damaged, and all that build
    /// on it.
    func broken(_ lists: [UploadName: [RemoteItem]], _ trust: UploadTrust) -> Set<UploadName> {
        let rest = manifests.drop { manifest in
            let items = Dictionary(
                (lists[manifest.name] ?? []).map { ($0.name, $0) },
                uniquingKeysWith: { first, _ in first }
            )
            let tags = trust.tags[manifest.name] ?? [:]
            // Of what it builds on, the store alone is needed.
            return !trust.damaged.contains(manifest.name)
                && manifest.files.filter { manifest == head || $0.file == .store }.allSatisfy { file in
                    let name = manifest.remoteName(of: file.file)
                    guard let item = items[name], item.size == file.storedSize else { return false }
                    return tags[name] == nil || tags[name] == item.tag
                }
        }
        return Set(rest.map(\.name))
    }
}
