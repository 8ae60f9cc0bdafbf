/// Decides which of a client's uploads stay after it has published another upload.
struct KeptUploads: Sendable {
    /// The uploads to remove, each before the uploads that it builds on.
    ///
    /// In this order no upload is ever visible without the uploads that it builds on.
    let outdated: [UploadName]
    /// The folders without a manifest that interrupted pushes left.
    let abandoned: [UploadName]

    /// Keeps the new upload, the last undamaged one before it, what the new one doesn't include, and what these build
    /// on.
    ///
    /// - Parameters:
    ///   - published: The uploads that were on the remote before.
    ///   - manifest: The manifest of the new upload.
    ///   - own: This device's records of its own uploads: the new one, those on the remote, and the newest published one,
    ///     if there is any, that is missing there and not included. Any other name under this client was planted, and is
    ///     ignored.
    ///   - damaged: Uploads with a damaged file. What builds on one of them can't be assembled any more, either.
    init(
        _ published: PublishedStores,
        by manifest: StoreManifest,
        among own: [UploadRecord],
        damaged: Set<UploadName>
    ) {
        let client = manifest.name.client
        let manifests = published.manifests + [manifest]
        let damaged = damaged.union(
            manifests.filter { !StoreChain.uploadsNeeded(by: [$0]).isDisjoint(with: damaged) }.map(\.name)
        )
        let names = Set(own.map(\.name))
        let former = published.published.filter { $0.client == client && names.contains($0) }
        let undamaged = manifests.map(\.name).filter {
            $0.client == client && $0 != manifest.name && !damaged.contains($0)
        }
        let previous = undamaged.max()?.generation ?? 0
        let superseded = former.filter {
            ($0.generation < previous || damaged.contains($0)) && manifest.includes.contains($0)
        }
        var published = published
        published.published.append(manifest.name)
        published.manifests.append(manifest)
        abandoned = published.abandoned(among: own)
        // An upload whose manifest couldn't be read may build on any other, so nothing is removed.
        let known = Set(manifests.map(\.name)).union(superseded)
        guard former.allSatisfy(known.contains) else {
            outdated = []
            return
        }
        let needed = StoreChain.uploadsNeeded(by: manifests.filter { !superseded.contains($0.name) })
        outdated = superseded.filter { !needed.contains($0) }.sorted { $0.generation > $1.generation }
    }
}

extension PublishedStores {
    /// The uploads that the manifests include.
    var included: Set<UploadName> { manifests.reduce(into: []) { $0.formUnion($1.includes) } }

    /// The folders without a manifest that a device's interrupted pushes left.
    ///
    /// Not among them are a published upload that no other contains, because its manifest may still arrive, and what others
    /// build on.
    ///
    /// - Parameter records: The device's records of its own uploads.
    /// - Returns: The uploads whose folders can be removed.
    func abandoned(among records: [UploadRecord]) -> [UploadName] {
        let (names, opened, included) = (names, Set(manifests.map(\.name)), included)
        // An upload whose manifest couldn't be read may build on any other.
        let unread = names.subtracting(opened).subtracting(included)
        guard !records.contains(where: { unread.contains($0.name) }) else { return [] }
        // So may an upload whose manifest hasn't arrived. Manifests don't name all older uploads, so those don't count.
        let own = Set(records.map(\.name))
        let newest = manifests.filter { own.contains($0.name) }.max { $0.name < $1.name }
        let oldest = newest.flatMap { Lineage.oldestRemoved(namedBy: $0, onRemote: names) }
        let late = records.contains {
            $0.isPublished && !names.contains($0.name) && !included.contains($0.name) && oldest ?? $0.name <= $0.name
        }
        let removable = Set(records.filter { !$0.isPublished || included.contains($0.name) && !late }.map(\.name))
            .subtracting(StoreChain.uploadsNeeded(by: manifests))
        return folders.filter { removable.contains($0) && !names.contains($0) }
    }
}
