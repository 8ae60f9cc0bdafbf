/// The rules by which the uploads of a document descend from each other.
///
/// An upload *includes* exactly the uploads that its manifest names: its parents, and what those name. It says nothing
/// about any other upload, whatever its client or age. An upload that no other includes is a *head*. A single head is
/// the newest store. Several heads hold edits that the others don't, and only a person can resolve that.
enum Lineage {
    /// The maximum number of uploads removed from the remote that a manifest names: the most recent ones.
    static let maximumRemoved = 256

    /// Returns the heads: the uploads that no other upload includes.
    static func heads(of manifests: [StoreManifest]) -> [StoreManifest] {
        let included = manifests.reduce(into: Set<UploadName>()) { $0.formUnion($1.includes) }
        return manifests.filter { !included.contains($0.name) }.sorted { $0.name < $1.name }
    }

    /// The uploads that the writers of the heads saw as other heads, and that now are missing and not included.
    static func witnessed(by manifests: [StoreManifest]) -> Set<UploadName> {
        let known = manifests.reduce(into: Set(manifests.map(\.name))) { $0.formUnion($1.includes) }
        let seen = heads(of: manifests).reduce(into: Set<UploadName>()) { $0.formUnion($1.otherHeads) }
        return seen.subtracting(known)
    }

    /// The uploads that this device or the writers of the heads know, and that are missing and not included.
    static func missing(
        from names: Set<UploadName>,
        _ manifests: [StoreManifest],
        _ memory: RollbackMemory
    ) -> Set<UploadName> {
        witnessed(by: manifests).subtracting(names).union(memory.missing(from: names, manifests))
    }

    /// Says why a known upload may be missing that no other upload includes.
    static func reasons(forMissing name: UploadName, among manifests: [StoreManifest]) -> String {
        let newest = manifests.map(\.name.generation).max() ?? 0
        guard newest - name.generation > maximumRemoved else {
            return "It is still arriving, or the storage was put back to an older state."
        }
        return """
            More than \(maximumRemoved) uploads came after it, so later ones may not name it; or it is still arriving, or \
            the storage was put back to an older state.
            """
    }

    /// The uploads that a store with these parents contains.
    ///
    /// - Parameters:
    ///   - parents: The uploads that the store descends from, and the known uploads that those include.
    ///   - manifests: The manifests that could be read: they may name further uploads.
    /// - Returns: The parents and all that they include.
    static func contained(in parents: Set<UploadName>, _ manifests: [StoreManifest]) -> Set<UploadName> {
        // An upload includes only older generations, so each manifest comes after all manifests that may name it.
        manifests.sorted { $0.name > $1.name }.reduce(into: parents) { contained, manifest in
            if contained.contains(manifest.name) { contained.formUnion(manifest.includes) }
        }
    }

    /// The uploads that a manifest names: of its store's uploads, all that exist on the remote and the newest others.
    ///
    /// A manifest has room for ``StoreManifest/maximumNames`` names.
    static func named(of contained: Set<UploadName>, onRemote names: Set<UploadName>) -> Set<UploadName> {
        let present = contained.intersection(names)
        return present.union(contained.subtracting(names).sorted(by: >).prefix(roomForRemoved(besides: present.count)))
    }

    /// The oldest removed upload that a manifest names; `nil` if it names all removed uploads of its store.
    ///
    /// Whether the store contains an older upload that the manifest doesn't name is unknown.
    static func oldestRemoved(namedBy manifest: StoreManifest, onRemote names: Set<UploadName>) -> UploadName? {
        let removed = manifest.includes.subtracting(names)
        let isFull = removed.count >= roomForRemoved(besides: manifest.includes.count - removed.count)
        return isFull ? removed.min() : nil
    }

    private static func roomForRemoved(besides count: Int) -> Int {
        min(max(StoreManifest.maximumNames - count, 0), maximumRemoved)
    }
}
