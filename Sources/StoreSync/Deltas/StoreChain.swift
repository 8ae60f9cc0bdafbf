/// A generation and those that it builds on: a whole copy, and the deltas to it in order, the generation itself last.
struct StoreChain: Hashable, Sendable {
    /// At least one: a generation that is a whole copy is alone.
    let manifests: [StoreManifest]

    /// The generation.
    var head: StoreManifest { manifests[manifests.count - 1] }
    var whole: StoreManifest { manifests[0] }
    var deltas: ArraySlice<StoreManifest> { manifests.dropFirst() }

    /// Why a generation can't be put together.
    enum Failure: Error, Hashable {
        /// The manifest of a generation that it builds on isn't there, or can't be read: it may still be arriving.
        case notArrived(UploadName)
        /// It doesn't fit on what it builds on, and never will.
        case misfit(UploadName)
    }

    /// Finds what a generation builds on.
    ///
    /// - Parameters:
    ///   - head: The generation.
    ///   - manifests: Those that could be read.
    /// - Throws: ``Failure``.
    init(_ head: StoreManifest, among manifests: [StoreManifest]) throws(Failure) {
        var chain: [StoreManifest] = []
        for (index, reference) in head.bases.enumerated() {
            let name = UploadName(client: head.name.client, reference)
            guard let base = manifests.first(where: { $0.name == name }) else { throw .notArrived(name) }
            // Each builds on all before it. The list of the head is short, so this ends whatever the others say.
            guard base.bases.elementsEqual(head.bases.prefix(index)) else { throw .misfit(name) }
            chain.append(base)
        }
        self.manifests = chain + [head]
    }

    /// The uploads, the whole copy first.
    var references: [UploadReference] { manifests.map(\.name.reference) }

    /// How many bytes on the remote make up the store, with the files that travel with it.
    var storedBytes: Int64 {
        head.files.reduce(0) { $0 + $1.storedSize }
            + manifests.dropLast().reduce(0) { $0 + ($1[.store]?.storedSize ?? 0) }
    }

    /// The uploads of a client that stay as long as these manifests do.
    static func uploadsNeeded(by manifests: [StoreManifest]) -> Set<UploadName> {
        Set(manifests.flatMap { manifest in manifest.bases.map { UploadName(client: manifest.name.client, $0) } })
    }
}
