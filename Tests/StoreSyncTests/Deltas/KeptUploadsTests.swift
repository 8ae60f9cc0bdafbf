import Testing

@testable import StoreSync

@Suite("Which uploads stay after another one")
struct KeptUploadsTests {
    /// The published uploads of one device, each of which includes all before it, and the manifest of the newest.
    private struct History {
        var manifests: [StoreManifest] = []
        var own: [UploadRecord] = []
        private var contained: Set<UploadName> = []

        /// Publishes an upload, while only the newest two manifests and that of `pinned` are on the remote.
        mutating func push(_ generation: Int, by client: String = "phone", pinned: UploadName? = nil) throws {
            var record = StateFixture.record(generation, client: client)
            record.isPublished = true
            var manifest = try StateFixture.manifest(of: record)
            manifests = manifests.filter { $0.name == pinned } + manifests.suffix(2).filter { $0.name != pinned }
            let older = contained.filter { $0.generation < generation }
            manifest.includes = Lineage.named(of: older, onRemote: Set(manifests.map(\.name)))
            contained = contained.subtracting(older).union(manifest.includes).union([manifest.name])
            manifests.append(manifest)
            if client == "phone" { own.append(record) }
        }

        /// The uploads that stay if the newest one has just been published while folders of former uploads were there.
        func kept(besides folders: [UploadName]) throws -> KeptUploads {
            var published = PublishedStores()
            published.manifests = manifests.dropLast()
            published.published = published.manifests.map(\.name)
            published.folders = published.published + folders
            let manifest = try #require(manifests.last)
            return KeptUploads(published, by: manifest, among: own, damaged: [])
        }
    }

    @Test(
        "A folder whose removal was interrupted is removed, however many uploads came before it",
        arguments: [5, 261, 262, 600]
    )
    func interruptedRemoval(count: Int) throws {
        var history = History()
        for generation in 1...count { try history.push(generation) }
        let left = history.own[count - 4].name
        #expect(try history.kept(besides: [left]).abandoned == [left])
    }

    @Test("Several uploads of a generation, and other clients' uploads that stay, don't make old uploads late")
    func divergences() throws {
        var history = History()
        try history.push(1, by: "tablet")
        let pinned = try #require(history.manifests.first?.name)
        for generation in 2...300 {
            try history.push(generation, by: "laptop", pinned: pinned)
            try history.push(generation, pinned: pinned)
        }
        let newest = try #require(history.manifests.last)
        #expect(newest.includes.contains(pinned))
        #expect(newest.includes.filter { $0.client == newest.name.client }.count < 140)
        let left = history.own[history.own.count - 4].name
        #expect(try history.kept(besides: [left]).abandoned == [left])
    }

    @Test("An upload whose manifest hasn't arrived keeps the folders on which it may build", arguments: [5, 300])
    func late(count: Int) throws {
        var history = History()
        for generation in 1...count { try history.push(generation) }
        let left = history.own[count - 4].name
        // Of another store of the device, so that no later upload includes it.
        var late = StateFixture.record(count - 2)
        late.isPublished = true
        history.own.append(late)
        #expect(try history.kept(besides: [left, late.name]).abandoned.isEmpty)
        // A folder that was never published is removed all the same.
        let unpublished = StateFixture.record(count - 1)
        history.own.append(unpublished)
        #expect(try history.kept(besides: [left, unpublished.name]).abandoned == [unpublished.name])
    }

    @Test("An old upload that no manifest names keeps folders only while a manifest has room to name it")
    func oldAndUnknown() throws {
        var history = History()
        for generation in 2...256 { try history.push(generation) }
        var unknown = StateFixture.record(1)
        unknown.isPublished = true
        history.own.insert(unknown, at: 0)
        for generation in 257... {
            let left = history.own[history.own.count - 4].name
            let newest = try #require(history.manifests.last)
            let removed = newest.includes.subtracting(history.manifests.map(\.name)).count
            let isNamed = removed < Lineage.maximumRemoved
            let kept = try history.kept(besides: [left, unknown.name])
            #expect(kept.abandoned == (isNamed ? [] : [left]), "generation \(generation - 1)")
            guard isNamed else { break }
            try history.push(generation)
        }
    }
}
