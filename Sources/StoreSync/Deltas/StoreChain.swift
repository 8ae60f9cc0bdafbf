import ContentDigests

/// An upload and the uploads that it builds on: a whole copy, then the deltas to it in order, the upload itself last.
struct StoreChain: Hashable, Sendable {
    /// At least one manifest: a whole copy is a chain of its own.
    let manifests: [StoreManifest]

    /// The upload itself.
    var head: StoreManifest { manifests[manifests.count - 1] }
    var whole: StoreManifest { manifests[0] }
    var deltas: ArraySlice<StoreManifest> { manifests.dropFirst() }

    /// Why an upload can't be assembled.
    enum Failure: Error, Hashable {
        /// The manifest of an upload that it builds on is missing or unreadable: it may still be arriving.
        case notArrived(UploadName)
        /// The upload doesn't match the uploads that it builds on, and never will.
        case misfit(UploadName)
    }

    /// Finds the uploads that an upload builds on.
    ///
    /// - Parameters:
    ///   - head: The manifest of the upload.
    ///   - manifests: The manifests that could be read.
    /// - Throws: ``Failure``.
    init(_ head: StoreManifest, among manifests: [StoreManifest]) throws(Failure) {
        var chain: [StoreManifest] = []
        for (index, reference) in head.bases.enumerated() {
            let name = UploadName(client: head.name.client, reference)
            guard let base = manifests.first(where: { $0.name == name }) else { throw .notArrived(name) }
            // Each upload builds on all before it. The head's list is limited, so the loop ends whatever the other
            // manifests say.
            guard base.bases.elementsEqual(head.bases.prefix(index)) else { throw .misfit(name) }
            chain.append(base)
        }
        self.init(chain + [head])
    }

    private init(_ manifests: [StoreManifest]) { self.manifests = manifests }

    /// The part of the chain that leads from a store to the head.
    ///
    /// - Parameter root: The store's digest.
    /// - Returns: The last upload of that store, as the whole copy, and the deltas to it; `nil` if no upload below the head is
    ///   of that store.
    func continuing(from root: ContentRoot) -> StoreChain? {
        manifests.dropLast().lastIndex { $0.store.contentRoot == root }.map { StoreChain(Array(manifests[$0...])) }
    }

    /// The uploads, the whole copy first.
    var references: [UploadReference] { manifests.map(\.name.reference) }

    /// How many bytes on the remote make up the store, with the files that travel with it.
    var storedBytes: Int64 {
        head.files.reduce(0) { $0 + $1.storedSize }
            + manifests.dropLast().reduce(0) { $0 + $1.store.storedSize }
    }

    /// The uploads that these manifests build on: they stay as long as the manifests do.
    static func uploadsNeeded(by manifests: [StoreManifest]) -> Set<UploadName> {
        Set(manifests.flatMap { manifest in manifest.bases.map { UploadName(client: manifest.name.client, $0) } })
    }
}
