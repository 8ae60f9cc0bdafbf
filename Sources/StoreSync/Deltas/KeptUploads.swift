import RemoteStorage

/// Which of a client's uploads stay when it has published another one.
struct KeptUploads: Sendable {
    /// What others build on; that stays as long as a manifest names it.
    let needed: Set<UploadName>
    /// What goes: those that build on others before those others, so that none is ever seen without what it builds on.
    let outdated: [UploadName]

    /// Keeps the new upload and the one before, whatever isn't contained in the new one, and what these build on.
    ///
    /// - Parameters:
    ///   - published: What stood on the remote before.
    ///   - manifests: All that could be read, the new one too.
    ///   - manifest: The new one.
    init(
        _ published: PublishedStores,
        _ manifests: [StoreManifest],
        by manifest: StoreManifest
    ) {
        let client = manifest.name.client
        let former = published.published.filter { $0.client == client }
        let previous = former.map(\.generation).max() ?? 0
        let superseded = former.filter {
            $0.generation < previous && manifest.includes.contains(client: client.rawValue, $0.reference)
        }
        let needed = StoreChain.uploadsNeeded(by: manifests.filter { !superseded.contains($0.name) })
        self.needed = needed
        // What stays and couldn't be read may build on anything.
        let known = Set(manifests.map(\.name)).union(superseded)
        guard former.allSatisfy(known.contains) else {
            outdated = []
            return
        }
        outdated = superseded.filter { !needed.contains($0) }.sorted { $0.generation > $1.generation }
    }
}
