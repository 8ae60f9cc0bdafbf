import RemoteStorage

/// Decides which of a client's uploads stay after it has published another upload.
struct KeptUploads: Sendable {
    /// The uploads that others build on; they stay as long as a manifest names them.
    let needed: Set<UploadName>
    /// The uploads to remove, each before the uploads that it builds on.
    ///
    /// In this order no upload is ever visible without the uploads that it builds on.
    let outdated: [UploadName]

    /// Keeps the new upload, the last undamaged one before it, what the new one doesn't include, and what these build
    /// on.
    ///
    /// - Parameters:
    ///   - published: The uploads that were on the remote before.
    ///   - manifest: The manifest of the new upload.
    ///   - own: The uploads that this device recorded as its own. Any other name under this client was planted, and is ignored.
    ///   - damaged: Uploads that can't be assembled any more.
    init(
        _ published: PublishedStores,
        by manifest: StoreManifest,
        among own: Set<UploadName>,
        damaged: Set<UploadName>
    ) {
        let client = manifest.name.client
        let manifests = published.manifests + [manifest]
        let former = published.published.filter { $0.client == client && own.contains($0) }
        let whole = manifests.map(\.name).filter { $0.client == client && $0 != manifest.name && !damaged.contains($0) }
        let previous = whole.max()?.generation ?? 0
        let superseded = former.filter {
            ($0.generation < previous || damaged.contains($0)) && manifest.includes.contains($0)
        }
        let needed = StoreChain.uploadsNeeded(by: manifests.filter { !superseded.contains($0.name) })
        self.needed = needed
        // An upload whose manifest couldn't be read may build on any other, so nothing is removed.
        let known = Set(manifests.map(\.name)).union(superseded)
        guard former.allSatisfy(known.contains) else {
            outdated = []
            return
        }
        outdated = superseded.filter { !needed.contains($0) }.sorted { $0.generation > $1.generation }
    }
}
