import RemoteStorage

/// Which of a client's uploads stay when it has published another one.
struct KeptUploads: Sendable {
    /// What others build on; that stays as long as a manifest names it.
    let needed: Set<UploadName>
    /// What goes: those that build on others before those others, so that none is ever seen without what it builds on.
    let outdated: [UploadName]

    /// Keeps the new upload and the last whole one before, whatever the new one doesn't include, and what these build on.
    ///
    /// - Parameters:
    ///   - published: What was on the remote before.
    ///   - manifests: All that could be read, the new one too.
    ///   - manifest: The new one.
    ///   - own: The uploads that this device recorded as its own. Any other name under this client was planted, and is ignored.
    ///   - damaged: Uploads that can't be put together any more.
    init(
        _ published: PublishedStores,
        _ manifests: [StoreManifest],
        by manifest: StoreManifest,
        among own: Set<UploadName>,
        damaged: Set<UploadName>
    ) {
        let client = manifest.name.client
        let former = published.published.filter { $0.client == client && own.contains($0) }
        let whole = manifests.map(\.name).filter { $0.client == client && $0 != manifest.name && !damaged.contains($0) }
        let previous = whole.max()?.generation ?? 0
        let superseded = former.filter {
            ($0.generation < previous || damaged.contains($0)) && manifest.includes.contains($0)
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
