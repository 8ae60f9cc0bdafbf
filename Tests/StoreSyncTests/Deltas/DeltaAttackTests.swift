import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import Testing

@testable import StoreSync

/// Chains of deltas on an untrusted storage, or on a storage that lost files.
@Suite("Damaged chains of deltas", .timeLimit(.minutes(60)))
struct DeltaAttackTests {
    /// A store that was pushed four times, the last three times as deltas, with all its files.
    private struct Scene {
        let scene: DeltaFixture
        let a: Device
        let manifests: [StoreManifest]
        /// The stores by generation, from 1 on.
        let stores: [Data]
        private let share: URL
        private let reader: URL

        init() async throws {
            scene = try DeltaFixture()
            a = try scene.fixture.device("a")
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
            share = scene.fixture.folder.appending(path: "as it was")
            try FileManager.default.copyItem(at: scene.fixture.share, to: share)
            // This device has the keys, but hasn't pulled.
            let reader = try scene.fixture.device("reader")
            _ = try await reader.registerDocument(mayCreate: false).value
            self.reader = reader.state.url.deletingLastPathComponent()
        }

        func store(_ generation: Int) -> URL {
            scene.url(manifests[generation - 1].path(of: .store, in: scene.document))
        }

        func manifest(_ generation: Int) -> URL {
            scene.url(scene.document.manifest(manifests[generation - 1].name))
        }

        /// Returns the result of a new device's pull: the generation of its store, or an error.
        ///
        /// Afterwards all files are restored.
        func found() async throws -> (generation: Int?, code: StoreSyncError.Code?) {
            let name = UUID().uuidString
            try FileManager.default.copyItem(at: reader, to: scene.fixture.folder.appending(path: name))
            let device = try scene.fixture.device(name)
            defer {
                try? FileManager.default.removeItem(at: device.store.deletingLastPathComponent())
                try? FileManager.default.removeItem(at: scene.fixture.share)
                try? FileManager.default.copyItem(at: share, to: scene.fixture.share)
            }
            let report = try await device.verify().value
            #expect(!report.problems.isEmpty || !report.warnings.isEmpty, "the verification reported nothing")
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

    @Test("A new device pulls the newest generation with all its files; a device that knew a newer one is warned")
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
        let b = try scene.scene.fixture.device("b")
        _ = try await b.pull().value
        try FileManager.default.removeItem(at: scene.store(3))
        #expect(await code { try await b.pull().value } == .rolledBack)
        #expect(try await b.pull(acceptRollback: true).value.generation == 2)
        // The next push notices the missing file and is a whole copy.
        var generator = SplitMix64(seed: 31)
        try RowStore.update(1, in: scene.a.store, &generator)
        _ = try await scene.a.push().value
        #expect(try await !scene.scene.newest(scene.a).isDelta)
        try await scene.scene.expectPulled(b, is: scene.a.store)
    }

    @Test("Repairing doesn't remove an upload whose manifest is missing: it may still arrive, and deltas build on it")
    func repaired() async throws {
        let scene = try await Scene()
        for generation in 1...4 {
            let manifest = try Data(contentsOf: scene.manifest(generation))
            try FileManager.default.removeItem(at: scene.manifest(generation))
            let report = try await scene.a.verify(repairs: true).value
            #expect(report.repaired.isEmpty)
            #expect(report.warnings.contains { $0.contains("isn't removed") }, "\(report.warnings)")
            try manifest.write(to: scene.manifest(generation))
        }
        // Another device's upload includes the first three; the fourth builds on them.
        let late = try [3, 4].map { ($0, try Data(contentsOf: scene.manifest($0))) }
        try FileManager.default.removeItem(at: scene.manifest(4))
        let b = try scene.scene.fixture.device("b")
        #expect(try await b.pull().value.generation == 3)
        var generator = SplitMix64(seed: 33)
        try RowStore.update(1, in: b.store, &generator)
        _ = try await b.push().value
        try FileManager.default.removeItem(at: scene.manifest(3))
        #expect(try await scene.a.verify(repairs: true).value.repaired.isEmpty)
        for (generation, manifest) in late { try manifest.write(to: scene.manifest(generation)) }
        let c = try scene.scene.fixture.device("c")
        #expect(try await c.pull(from: scene.manifests[0].name.client, generation: 4).value.generation == 4)
        #expect(try Data(contentsOf: c.store) == scene.stores[3])
    }

    @Test(
        "An upload of a removed client stays if another one builds on it whose manifest hasn't arrived, or only in part",
        arguments: [false, true]
    )
    func removedClient(isCutOff: Bool) async throws {
        let scene = try await Scene()
        let late = try [3, 4].map { ($0, try Data(contentsOf: scene.manifest($0))) }
        for (generation, manifest) in late {
            try FileManager.default.removeItem(at: scene.manifest(generation))
            if isCutOff { try manifest.prefix(manifest.count / 2).write(to: scene.manifest(generation)) }
        }
        let b = try scene.scene.fixture.device("b")
        #expect(try await b.pull().value.generation == 2)
        let client = scene.manifests[0].name.client
        _ = try await b.remove(client).value
        var generator = SplitMix64(seed: 32)
        try RowStore.update(1, in: b.store, &generator)
        _ = try await b.push().value
        for (generation, manifest) in late { try manifest.write(to: scene.manifest(generation)) }
        let c = try scene.scene.fixture.device("c")
        let pulled = try await c.pull(from: client, generation: 4).value
        #expect(pulled.generation == 4)
        #expect(try Data(contentsOf: c.store) == scene.stores[3])
    }

    @Test(
        "Uploads of a removed client go although one of its manifests is damaged, once that is a month old",
        arguments: [29, 31]
    )
    func damagedManifestOfRemovedClient(days: Double) async throws {
        let scene = try await Scene()
        let damaged = scene.manifest(4)
        try Data(contentsOf: damaged).prefix(100).write(to: damaged)
        let time = Date.now - days * 24 * 3600
        try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: damaged.path)
        let b = try scene.scene.fixture.device("b")
        #expect(try await b.pull().value.generation == 3)
        _ = try await b.remove(scene.manifests[0].name.client).value
        var generator = SplitMix64(seed: 34)
        try RowStore.update(1, in: b.store, &generator)
        _ = try await b.push(whole: true).value
        for generation in 1...3 {
            let isThere = FileManager.default.fileExists(atPath: scene.manifest(generation).path)
            #expect(isThere == (days < 30), "\(generation)")
        }
    }

    @Test("Deltas that are exchanged, copied over another generation or truncated never yield wrong data")
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

    @Test("A flipped bit anywhere in a chain yields a typed error or an older store, never wrong data")
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
                    // A manifest that can't be read counts as not arrived, whatever its first bytes say.
                    if url == scene.manifest(generation) {
                        #expect(
                            found.generation == (generation == 1 ? nil : generation - 1),
                            "\(generation) at \(offset)"
                        )
                    }
                    cases += 1
                }
            }
        }
        #expect(cases == 80)
    }

    /// A wrong manifest that a holder of the keys, or a bug, created.
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
        "A manifest with a wrong chain, size or digest isn't trusted",
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
