/// The rules by which the uploads of a document descend from each other.
///
/// An upload *includes* exactly the uploads that its manifest names: its parents, and what those name. It says nothing of any
/// other, whoever made it and however old it is. An upload that no other includes is a *head*. One head is the newest store;
/// several hold edits that the others don't, and only a person can settle that.
enum Lineage {
    /// How many uploads that have been removed from the remote a manifest names: the most recent ones.
    static let maximumRemoved = 256

    /// The uploads that no other includes.
    static func heads(of manifests: [StoreManifest]) -> [StoreManifest] {
        let included = manifests.reduce(into: Set<UploadName>()) { $0.formUnion($1.includes) }
        return manifests.filter { !included.contains($0.name) }.sorted { $0.name < $1.name }
    }

    /// The uploads that the writers of the heads saw beside them, and that are missing now without being included.
    static func witnessed(by manifests: [StoreManifest]) -> Set<UploadName> {
        let known = manifests.reduce(into: Set(manifests.map(\.name))) { $0.formUnion($1.includes) }
        let seen = heads(of: manifests).reduce(into: Set<UploadName>()) { $0.formUnion($1.otherHeads) }
        return seen.subtracting(known)
    }

    /// What a store contains that has these parents.
    ///
    /// - Parameters:
    ///   - parents: The uploads that it descends from, and what is known of what those include.
    ///   - manifests: The manifests that could be read: they may name more than is known.
    /// - Returns: The parents and all that they include.
    static func contained(in parents: Set<UploadName>, _ manifests: [StoreManifest]) -> Set<UploadName> {
        // An upload includes older generations only, so each manifest comes after all that may name it.
        manifests.sorted { $0.name > $1.name }.reduce(into: parents) { contained, manifest in
            if contained.contains(manifest.name) { contained.formUnion(manifest.includes) }
        }
    }

    /// The uploads that a manifest names: of what its store contains all that exist on the remote, and the newest of the others.
    ///
    /// A manifest has room for ``StoreManifest/maximumNames`` names.
    static func named(of contained: Set<UploadName>, onRemote names: Set<UploadName>) -> Set<UploadName> {
        let there = contained.intersection(names)
        let room = min(max(StoreManifest.maximumNames - there.count, 0), maximumRemoved)
        return there.union(contained.subtracting(names).sorted(by: >).prefix(room))
    }
}
