import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import Testing

@testable import StoreSync

/// What a storage that isn't trusted, or that lost something, does to a chain of deltas.
@Suite("Chains of deltas that were damaged", .timeLimit(.minutes(60)))
struct DeltaAttackTests {
    /// A store that was pushed four times, the last three as deltas, and all files of it.
    private struct Scene {
        let scene: DeltaWorld
        let a: Device
        let manifests: [StoreManifest]
        /// The stores by generation, from 1 on.
        let stores: [Data]
        private let share: URL
        private let reader: URL

        init() async throws {
            scene = try DeltaWorld()
            a = try scene.world.device("a")
            var generator = SplitMix64(seed: 30)
            try RowStore.insert(40, into: a.store, &generator)
            var stores: [Data] = []
            for _ in 0..<4 {
                try RowStore.update(1, in: a.store, &generator)
                _ = try await a.push().value
                stores.append(try scene.snapshot(of: a.store))
            }
            self.stores = stores
            manifests = try await scene.manifests(a)
            #expect(manifests.map(\.bases.count) == [0, 1, 2, 3])
            share = scene.world.folder.appending(path: "as it was")
            try FileManager.default.copyItem(at: scene.world.share, to: share)
            // It has the keys, and has pulled nothing.
            let reader = try scene.world.device("reader")
            _ = try await reader.registerDocument(mayCreate: false).value
            self.reader = reader.state.url.deletingLastPathComponent()
        }

        func store(_ generation: Int) -> URL {
            scene.url(manifests[generation - 1].path(of: .store, in: scene.document))
        }

        func manifest(_ generation: Int) -> URL {
            scene.url(scene.document.manifest(manifests[generation - 1].name))
        }

        /// What a device finds that comes new: the store of a generation, or an error.
        ///
        /// Afterwards everything is as it was.
        func found() async throws -> (generation: Int?, code: StoreSyncError.Code?) {
            let name = UUID().uuidString
            try FileManager.default.copyItem(at: reader, to: scene.world.folder.appending(path: name))
            let device = try scene.world.device(name)
            defer {
                try? FileManager.default.removeItem(at: device.store.deletingLastPathComponent())
                try? FileManager.default.removeItem(at: scene.world.share)
                try? FileManager.default.copyItem(at: share, to: scene.world.share)
            }
            let report = try await device.verify().value
            #expect(!report.problems.isEmpty || !report.warnings.isEmpty, "nobody noticed")
            do {
                let pulled = try await device.pull().value
                #expect(try Data(contentsOf: device.store) == stores[pulled.generation - 1])
                return (pulled.generation, nil)
            } catch let error as StoreSyncError {
                #expect(!FileManager.default.fileExists(atPath: device.store.path))
                return (nil, error.code)
            }
        }
    }

    @Test(
        "what is gone has not arrived: an older generation is offered that is whole, also by a device that knew the newer"
    )
    func removed() async throws {
        let scene = try await Scene()
        for (generation, expected) in [(1, nil), (2, 1), (3, 2), (4, 3)] as [(Int, Int?)] {
            for isManifest in [false, true] {
                let gone = isManifest ? scene.manifest(generation) : scene.store(generation)
                try FileManager.default.removeItem(at: gone)
                let found = try await scene.found()
                #expect(found.generation == expected, "\(generation), \(isManifest)")
                #expect(found.code == (expected == nil ? .noUploadedStore : nil))
            }
        }
        let b = try scene.scene.world.device("b")
        _ = try await b.pull().value
        try FileManager.default.removeItem(at: scene.store(3))
        #expect(await code { try await b.pull().value } == .rolledBack)
        #expect(try await b.pull(acceptRollback: true).value.generation == 2)
        // A push finds what is missing and is a whole copy.
        var generator = SplitMix64(seed: 31)
        try RowStore.update(1, in: scene.a.store, &generator)
        _ = try await scene.a.push().value
        #expect(try await !scene.scene.newest(scene.a).isDelta)
        try await scene.scene.expectPulled(b, is: scene.a.store)
    }

    @Test("two deltas exchanged, one put in another generation's place, one cut: nothing wrong is ever made of them")
    func exchanged() async throws {
        let scene = try await Scene()
        for (one, other) in [(2, 3), (3, 4), (2, 4)] {
            let bytes = try [one, other].map { try Data(contentsOf: scene.store($0)) }
            try bytes[1].write(to: scene.store(one))
            try bytes[0].write(to: scene.store(other))
            let found = try await scene.found()
            #expect(found.code == .tampered || (found.generation ?? 4) < one, "\(one) and \(other): \(found)")
        }
        for (from, to) in [(2, 3), (3, 2), (3, 4), (4, 3), (1, 2), (2, 1)] {
            try Data(contentsOf: scene.store(from)).write(to: scene.store(to))
            let found = try await scene.found()
            #expect(
                found.code == .tampered || found.code == .noUploadedStore || (found.generation ?? 4) < to,
                "\(found)"
            )
        }
        for generation in 1...4 {
            let bytes = try Data(contentsOf: scene.store(generation))
            for count in [0, 1, 103, 104, bytes.count / 2, bytes.count - 1] {
                try bytes.prefix(count).write(to: scene.store(generation))
                let found = try await scene.found()
                #expect(found.generation == (generation == 1 ? nil : generation - 1), "\(generation) cut to \(count)")
            }
        }
    }

    @Test("bytes flipped anywhere in a chain: a typed error or an older store, never wrong data")
    func flipped() async throws {
        let scene = try await Scene()
        var cases = 0
        for generation in 1...4 {
            for url in [scene.store(generation), scene.manifest(generation)] {
                let bytes = try Data(contentsOf: url)
                for offset in [0, 17, 20, 41, 75, 105, 110, 140, bytes.count / 2, bytes.count - 1] {
                    var changed = bytes
                    changed[offset] ^= 1 << UInt8(offset % 8)
                    try changed.write(to: url)
                    let found = try await scene.found()
                    #expect(found.generation != 4, "\(url.lastPathComponent) at \(offset)")
                    cases += 1
                }
            }
        }
        #expect(cases == 80)
    }

    /// A manifest that somebody with the keys, or an error, made.
    enum Forgery: String, CaseIterable, Sendable {
        case skipsOne, otherOrder, startsLater, unknownUpload, largerBase, otherSize, otherRoot

        func apply(_ manifest: inout StoreManifest) {
            let store = manifest.files.firstIndex { $0.file == .store } ?? 0
            switch self {
            case .skipsOne: manifest.bases.remove(at: 1)
            case .otherOrder: manifest.bases.swapAt(0, 1)
            case .startsLater: manifest.bases.removeFirst()
            case .unknownUpload: manifest.bases[2].upload = UUID().uuidString
            case .largerBase: manifest.bases = [manifest.bases[0]]
            case .otherSize: manifest.files[store].size += 4096
            case .otherRoot: manifest.files[store].contentRoot = manifest.files[(store + 1) % 3].contentRoot
            }
        }
    }

    @Test(
        "a manifest whose chain doesn't fit, or that says another size or digest, isn't believed",
        arguments: Forgery.allCases
    )
    func forged(_ forgery: Forgery) async throws {
        let scene = try await Scene()
        let registration = try await scene.a.registerDocument().value
        var manifest = scene.manifests[3]
        forgery.apply(&manifest)
        let role = ApplicationSeal.Role.manifest(manifest.name, of: registration.identity)
        try Data(registration.application.seal.seal(manifest.xml, as: role)).write(to: scene.manifest(4))
        let found = try await scene.found()
        #expect(found.generation != 4, "\(found)")
        let expected: Set<StoreSyncError.Code> = [.corrupt, .tampered]
        #expect(found.generation == 3 || found.code.map(expected.contains) == true, "\(found)")
    }
}
