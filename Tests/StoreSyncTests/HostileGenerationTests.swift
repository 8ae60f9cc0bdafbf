import Foundation
import GRDB
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

/// An attacker who can write to the storage can name any generation, which must not crash a device.
@Suite("Generations that no device can have pushed", .timeLimit(.minutes(60)))
struct HostileGenerationTests {
    /// The position of the forged number.
    enum Place: String, CaseIterable {
        case name, folder, included, otherHead, size
    }

    private static let tooHigh = [Int.max, UploadReference.generations.upperBound + 1]

    /// A document that `a` pushed and `b` pulled, with a forged upload of another client beside it.
    private struct Scene {
        let fixture: Fixture
        let a: Device
        let b: Device
        let stranger: RemoteIdentifier

        init() async throws {
            fixture = try Fixture()
            (a, b) = (try fixture.device("a"), try fixture.device("b"))
            stranger = try RemoteIdentifier("stranger")
            try await a.push(adding: "one")
            _ = try await b.pull().value
        }

        private var hierarchy: DocumentHierarchy {
            fixture.hierarchy.document(fixture.document)
        }

        /// Uploads the store of `a` once more, as another client, with `number` in one position.
        func forge(_ number: Int, in place: Place) async throws {
            let hooks = a.backend.wholeStoreDownloadHooks
            let published = try await PublishedStores.list(hooks, hierarchy).published
            let manifests = try await UploadCatalog(
                hooks: hooks,
                hierarchy: hierarchy,
                seal: ApplicationSeal(application: fixture.application, key: nil),
                identity: DocumentIdentity(document: fixture.document, integrityKey: "")
            ).manifests(of: published).manifests
            var manifest = try #require(manifests.first)
            let original = hierarchy.upload(manifest.name)
            let generation = [.name, .folder].contains(place) ? number : 2
            manifest.name = UploadName(client: stranger, generation: generation, upload: UUID().uuidString)
            let (upload, path) = (hierarchy.upload(manifest.name), hierarchy.manifest(manifest.name))
            try FileManager.default.createDirectory(
                at: fixture.url(hierarchy.wholeStores(stranger)),
                withIntermediateDirectories: true
            )
            try FileManager.default.copyItem(at: fixture.url(original), to: fixture.url(upload))
            guard place != .folder else { return }
            try Data(xml(of: manifest, with: number, in: place)).write(to: fixture.url(path))
        }

        private func xml(of manifest: StoreManifest, with number: Int, in place: Place) -> [UInt8] {
            var manifest = manifest
            let forged = UploadName(client: stranger, generation: number, upload: UUID().uuidString)
            switch place {
            case .name, .folder: break
            case .included: manifest.includes.insert(forged)
            case .otherHead: manifest.otherHeads.insert(forged)
            case .size: manifest.files[0].storedSize = Int64(number)
            }
            return manifest.xml
        }

        /// Returns the code of the error of each command, or `nil` if it succeeds.
        func commands() async throws -> [String: StoreSyncError.Code?] {
            try a.write("two")
            func outcome(_ body: () async throws -> some Any) async throws -> StoreSyncError.Code? {
                do {
                    _ = try await body()
                    return nil
                } catch let error as StoreSyncError {
                    return error.code
                }
            }
            return [
                "push": try await outcome { try await a.push().value },
                "pull": try await outcome { try await b.pull().value },
                "pull of the stranger": try await outcome { try await b.pull(from: stranger, overwrite: true).value },
                "status": try await outcome { try await b.status().value },
                "verify": try await outcome { try await b.verify().value },
            ]
        }
    }

    @Test(
        "A generation that is too high is ignored, or refused as corrupt, wherever it occurs",
        arguments: Place.allCases,
        tooHigh
    )
    func outOfRange(place: Place, number: Int) async throws {
        let scene = try await Scene()
        try await scene.forge(number, in: place)
        let outcomes = try await scene.commands()
        let expected: [String: StoreSyncError.Code?] = [
            "push": nil, "pull": nil, "status": nil, "verify": nil,
            "pull of the stranger": [.name, .folder].contains(place) ? .noUploadedStore : .corrupt,
        ]
        #expect(outcomes == expected)
        #expect(try scene.b.notes() == ["one", "two"])
    }

    @Test("The highest possible generation is read, and nothing can be pushed after it")
    func last() async throws {
        let last = UploadReference.generations.upperBound
        let scene = try await Scene()
        try await scene.forge(last, in: .name)
        let outcomes = try await scene.commands()
        #expect(outcomes["push"] == .corrupt)
        #expect(outcomes["pull of the stranger"] == .some(nil))
        let error = await #expect(throws: StoreSyncError.self) { try await scene.a.push().value }
        #expect(error?.message.contains("Push the store as another document") == true)
        try scene.b.write("three")
        #expect(await code { try await scene.b.push().value } == .corrupt, "the device remembers it too")
    }

    @Test("A generation that is too high in the device's own memory is reported as damage")
    func memory() throws {
        let fixture = try StateFixture()
        let state = try fixture.open()
        var store = StateFixture.store()
        store.base = StateFixture.name(6)
        try state.commitPull(store)
        try state.recordUpload(StateFixture.record(6))
        try DatabaseQueue(path: fixture.database.path).write { db in
            for table in ["fact", "store", "upload"] {
                try db.execute(sql: "UPDATE \(table) SET value = replace(value, '/6-', '/\(Int.max)-')")
            }
        }
        func isDamage(_ body: () throws -> some Any) -> Bool {
            do {
                _ = try body()
                return false
            } catch {
                return (error as? StoreSyncError)?.code == .corrupt
            }
        }
        #expect(isDamage { try state.rollbackMemory(for: StateFixture.diary, "key") })
        #expect(isDamage { try state.store(at: "/data/diary.sqlite", document: StateFixture.diary) })
        #expect(isDamage { try state.uploads(for: StateFixture.diary) })
    }
}
