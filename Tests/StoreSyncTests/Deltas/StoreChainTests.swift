import Foundation
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Manifests of generations that build on others")
struct StoreChainTests {
    private let client: RemoteIdentifier

    init() throws {
        client = try RemoteIdentifier("phone")
    }

    private func manifest(
        _ generation: Int,
        on bases: [UploadReference] = [],
        of client: RemoteIdentifier? = nil
    ) throws -> StoreManifest {
        let root = try #require(ContentRootFixture.root)
        let name = UploadName(client: client ?? self.client, StateFixture.upload(generation))
        var manifest = StoreManifest(
            name: name,
            created: Date(timeIntervalSince1970: 1),
            files: WholeStoreFile.allCases.map {
                let seal = StoreManifest.Seal(salt: Array(0..<32), seals: Array(32..<64))
                return StoreManifest.File(file: $0, size: 10, storedSize: 20, contentRoot: root, seal: seal)
            },
            includes: []
        )
        manifest.bases = bases
        return manifest
    }

    private func references(_ generations: ClosedRange<Int>) -> [UploadReference] {
        generations.map { StateFixture.upload($0) }
    }

    private func read(_ manifest: StoreManifest, _ xml: [UInt8]? = nil) throws -> StoreManifest {
        try StoreManifest(xml ?? manifest.xml, named: manifest.name, at: .root)
    }

    private func isCorrupt(_ body: () throws -> some Any) -> Bool {
        do {
            _ = try body()
            return false
        } catch {
            return (error as? StoreSyncError)?.code == .corrupt
        }
    }

    @Test("A manifest is read as it was written, and older programs can read only manifests of whole copies")
    func roundTrip() throws {
        for (bases, version) in [([], 1), (references(1...1), 2), (references(1...16), 2)] {
            let written = try manifest(17, on: bases)
            #expect(try read(written) == written)
            #expect(try PropertyListValue(xml: written.xml).dictionary?["formatVersion"] == .integer(version))
            #expect(
                written.remoteName(of: .store) == (version == 1 ? "WholeStore.ticdsync" : "WholeStoreDelta.ticdsync")
            )
            let path = written.path(of: .store, in: ApplicationHierarchy(client).document(client))
            #expect(path.lastComponent == written.remoteName(of: .store))
        }
    }

    @Test("A manifest is corrupt if its bases include itself or a later upload, repeat, are too many or invalid")
    func strict() throws {
        let good = references(1...3)
        for bases in [
            references(4...4), references(5...5), [good[0], good[0]], [good[1], good[0]], references(1...17),
            [UploadReference(generation: 1, upload: "../../../../etc")], [UploadReference(generation: 1, upload: "")],
            [UploadReference(generation: 1, upload: good[0].upload.lowercased())],
            [StateFixture.upload(2, "A"), StateFixture.upload(2, "B")],
        ] {
            let generation = bases.count == 17 ? 18 : 4
            #expect(isCorrupt { try read(manifest(generation, on: bases)) }, "\(bases)")
        }
        let written = try manifest(4, on: good)
        let values = try #require(try PropertyListValue(xml: written.xml).dictionary)
        for (key, value) in [
            ("bases", PropertyListValue.array([])), ("bases", .string("all")), ("bases", .array([.integer(1)])),
            ("bases", .array([.dictionary(["generation": .integer(0), "upload": .string(good[0].upload)])])),
            ("formatVersion", .integer(1)),
        ] {
            var changed = values
            changed[key] = value
            #expect(isCorrupt { try read(written, PropertyListValue.dictionary(changed).xml) }, "\(key): \(value)")
        }
        var bare = values
        bare["bases"] = nil
        #expect(isCorrupt { try read(written, PropertyListValue.dictionary(bare).xml) })
        var newer = values
        newer["formatVersion"] = .integer(3)
        #expect(throws: StoreSyncError.self) { try read(written, PropertyListValue.dictionary(newer).xml) }
    }

    @Test("D18: A delta that isn't sealed is refused")
    func unsealed() throws {
        var written = try manifest(2, on: references(1...1))
        for index in written.files.indices { written.files[index].seal = nil }
        #expect(isCorrupt { try read(written) })
    }

    @Test(
        "A manifest is corrupt if a file has a salt without a digest of seals, or the reverse, or one of another length"
    )
    func seals() throws {
        let written = try manifest(4)
        let values = try #require(try PropertyListValue(xml: written.xml).dictionary)
        let files = try #require(values["files"]?.array)
        for key in ["salt", "seals"] {
            for value in [nil, .data(Data(count: 31)), .data(Data(count: 33)), .string("c0ffee"), .data(Data())]
                as [PropertyListValue?]
            {
                var (changed, file) = (values, try #require(files[0].dictionary))
                file[key] = value
                changed["files"] = .array([.dictionary(file)] + files.dropFirst())
                #expect(isCorrupt { try read(written, PropertyListValue.dictionary(changed).xml) })
            }
        }
    }

    @Test("A chain is found, beginning with the whole copy")
    func chain() throws {
        let all = try (1...4).map { try manifest($0, on: $0 == 1 ? [] : references(1...$0 - 1)) }
        for (index, head) in all.enumerated() {
            let chain = try StoreChain(head, among: all.reversed())
            #expect(chain.manifests == Array(all.prefix(index + 1)))
            #expect(chain.whole == all[0] && chain.head == head)
            #expect(chain.storedBytes == Int64(20 * (index + 3)))
        }
        #expect(StoreChain.uploadsNeeded(by: [all[2]]) == Set([all[0].name, all[1].name]))
    }

    @Test("A delta whose base is missing hasn't arrived, and a delta that doesn't fit its base never arrives")
    func failures() throws {
        let (first, second) = (try manifest(1), try manifest(2, on: references(1...1)))
        let third = try manifest(3, on: references(1...2))
        func failure(_ manifests: [StoreManifest]) -> StoreChain.Failure? {
            do throws(StoreChain.Failure) {
                _ = try StoreChain(third, among: manifests)
                return nil
            } catch {
                return error
            }
        }
        #expect(failure([first, second, third]) == nil)
        #expect(failure([second, third]) == .notArrived(first.name))
        #expect(failure([first, third]) == .notArrived(second.name))
        // Another client's upload of the same generation isn't the base.
        let foreign = try manifest(2, on: references(1...1), of: try RemoteIdentifier("laptop"))
        #expect(failure([first, foreign]) == .notArrived(second.name))
        // A whole copy instead of a delta, a delta to another upload, and a delta instead of the whole copy, in a cycle.
        #expect(failure([first, try manifest(2)]) == .misfit(second.name))
        let elsewhere = try manifest(2, on: [StateFixture.upload(1, "B")])
        #expect(failure([first, elsewhere]) == .misfit(second.name))
        #expect(failure([try manifest(1, on: references(1...2)), second]) == .misfit(first.name))
    }

    @Test("The context that a delta is sealed for names the number of its bases and the last one")
    func role() throws {
        let seal = ApplicationSeal(application: client, key: nil)
        let name = UploadName(client: client, StateFixture.upload(9))
        let identity = DocumentIdentity(document: client, integrityKey: "key")
        func context(_ bases: [UploadReference]) -> String {
            seal.context(.delta(name, to: bases, of: identity)).role
        }
        let upload = StateFixture.upload(2)
        #expect(context(references(1...2)) == "WholeStoreDelta.ticdsync 2 2-\(upload.upload)")
        let roles = [references(1...2), references(2...2), references(1...3), references(2...3)].map(context)
        #expect(Set(roles).count == 4)
    }
}
