import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import TestSupport
import Testing

@testable import StoreSync

/// The seals that a manifest names, on a storage that has kept what other attempts of the same push have sealed.
@Suite("A store is proven by its seals, or else by its digest", .timeLimit(.minutes(60)))
struct SealTests {
    private static let chunk = RemoteContent.chunkSize
    private static let sealedChunk = chunk + 44
    private static let header = 104

    /// A pushed store of four chunks that can't be compressed, and a device that pulls it.
    private struct Scene {
        let deltas: DeltaFixture
        let (a, b): (Device, Device)
        let registration: DocumentRegistration
        let manifest: StoreManifest
        /// The store, and what was uploaded.
        let (content, sealed): ([UInt8], [UInt8])

        init() async throws {
            deltas = try DeltaFixture()
            (a, b) = (try deltas.fixture.device("a"), try deltas.fixture.device("b"))
            var generator = SplitMix64(seed: 1)
            content = DeltaModel.noise(4 * chunk - 1000, &generator)
            try Data(content).write(to: a.store)
            _ = try await a.push(compression: .off).value
            registration = try await a.registerDocument().value
            manifest = try await deltas.newest(a)
            let url = deltas.url(manifest.path(of: .store, in: deltas.document))
            sealed = Array(try Data(contentsOf: url))
            #expect(sealed.count == 4 * sealedChunk + header - 1000)
        }

        var seal: ApplicationSeal { registration.application.seal }
        func url(_ file: WholeStoreFile) -> URL { deltas.url(manifest.path(of: file, in: deltas.document)) }

        /// Seals a content as another attempt of the same push would have.
        func attempt(_ content: [UInt8], as file: WholeStoreFile = .store) throws -> [UInt8] {
            let key = try #require(seal.key)
            var options = SealingOptions(compression: .stored)
            options.salt = try #require(manifest[file]?.seal?.salt)
            return key.seal(
                content,
                as: seal.context(manifest.role(of: file, in: registration.identity)),
                options: options
            )
        }

        /// Returns what was uploaded with some chunks of another attempt in it.
        func mixture(with other: [UInt8], _ chunks: some Sequence<Int>) -> [UInt8] {
            var mixed = sealed
            for chunk in chunks {
                let end = min(header + (chunk + 1) * sealedChunk, sealed.count)
                mixed[(header + chunk * sealedChunk)..<end] = other[(header + chunk * sealedChunk)..<end]
            }
            return mixed
        }

        /// Replaces the manifest, as a holder of the keys could.
        func publish(_ change: (inout StoreManifest.File) -> Void) throws {
            var manifest = manifest
            let store = try #require(manifest.files.firstIndex { $0.file == .store })
            change(&manifest.files[store])
            let role = ApplicationSeal.Role.manifest(manifest.name, of: registration.identity)
            let url = deltas.url(deltas.document.manifest(manifest.name))
            try Data(seal.seal(manifest.xml, as: role)).write(to: url)
        }

        /// Expects that a pull is refused, and leaves nothing behind.
        func expectRefused(_ expected: StoreSyncError.Code = .corrupt, _ comment: String) async throws {
            let error = await #expect(throws: StoreSyncError.self, "\(comment)") { try await b.pull().value }
            #expect(error?.code == expected, "\(comment)")
            let left = try FileManager.default.contentsOfDirectory(atPath: b.store.deletingLastPathComponent().path)
            #expect(left == ["state"], "\(comment)")
            #expect(try await !a.verify().value.problems.isEmpty, "\(comment)")
        }

        func expectPulled(_ comment: String) async throws {
            _ = try await b.pull(overwrite: true).value
            #expect(try Array(Data(contentsOf: b.store)) == content, "\(comment)")
            #expect(try await b.push().value.isUnchanged, "\(comment)")
            try FileManager.default.removeItem(at: b.store)
        }
    }

    @Test("D19: Chunks of another content that another attempt of the push has sealed are refused, in every mixture")
    func mixedContent() async throws {
        let scene = try await Scene()
        var generator = SplitMix64(seed: 2)
        let other = try scene.attempt(DeltaModel.noise(scene.content.count, &generator))
        for mixture in 1..<16 {
            let chunks = (0..<4).filter { mixture >> $0 & 1 == 1 }
            try Data(scene.mixture(with: other, chunks)).write(to: scene.url(.store))
            try await scene.expectRefused(.corrupt, "\(chunks)")
        }
        try Data(scene.sealed).write(to: scene.url(.store))
        try await scene.expectPulled("restored")
    }

    @Test("Chunks of the same content that another attempt of the push has sealed are accepted, in every mixture")
    func mixedAttempts() async throws {
        let scene = try await Scene()
        let other = try scene.attempt(scene.content)
        for mixture in 1..<16 {
            let chunks = (0..<4).filter { mixture >> $0 & 1 == 1 }
            try Data(scene.mixture(with: other, chunks)).write(to: scene.url(.store))
            try await scene.expectPulled("\(chunks)")
        }
        #expect(try await scene.a.verify().value.problems.isEmpty)
    }

    @Test("D19: A store whose chunks were dropped, repeated or exchanged is refused")
    func rearranged() async throws {
        let scene = try await Scene()
        let chunks = (0..<4).map {
            scene.sealed.dropFirst(Self.header + $0 * Self.sealedChunk).prefix(Self.sealedChunk)
        }
        for order in [
            [0, 1, 3], [0, 0, 1, 2, 3], [0, 1, 1, 3], [1, 0, 2, 3], [2, 1, 0, 3], [0, 1, 2, 2], [0, 1, 2],
        ] {
            let file = order.reduce(scene.sealed.prefix(Self.header)) { $0 + chunks[$1] }
            try Data(file).write(to: scene.url(.store))
            // The rest of a file that is too small may still arrive.
            let code: StoreSyncError.Code = file.count < scene.sealed.count ? .noUploadedStore : .tampered
            try await scene.expectRefused(code, "\(order)")
        }
    }

    @Test("D19: Applied sets that another attempt of the push has sealed from another content are refused")
    func appliedSets() async throws {
        let scene = try await Scene()
        for file in WholeStoreFile.appliedSets {
            let url = scene.url(file)
            let sealed = try Data(contentsOf: url)
            let bytes = Array(sealed)
            let key = try #require(scene.seal.key)
            let context = scene.seal.context(scene.manifest.role(of: file, in: scene.registration.identity))
            let content = try key.open(bytes, as: context, upTo: 1 << 20)
            var changed = content
            changed[content.count / 2] ^= 1
            let sizes = try [content, changed].map { try scene.attempt($0, as: file).count }
            // Not compressed, so it has the size in the manifest only if the upload wasn't either.
            #expect(sizes == [sealed.count, sealed.count])
            try Data(try scene.attempt(changed, as: file)).write(to: url)
            try await scene.expectRefused(.corrupt, "\(file)")
            try Data(try scene.attempt(content, as: file)).write(to: url)
            try await scene.expectPulled("\(file)")
        }
    }

    @Test("If a manifest names other seals, the digest decides, and the store and the record of it are right")
    func otherSeals() async throws {
        let scene = try await Scene()
        try scene.publish { $0.seal?.seals = Array(0..<32) }
        try await scene.expectPulled("other seals")
        try scene.publish {
            $0.seal?.seals = Array(0..<32)
            $0.contentRoot = scene.manifest.files[1].contentRoot
        }
        try await scene.expectRefused(.corrupt, "another digest too")
        try scene.publish { $0.size -= 1 }
        try await scene.expectRefused(.corrupt, "another size")
        try scene.publish { $0.seal?.salt = Array(0..<32) }
        try await scene.expectRefused(.tampered, "another salt")
    }

    @Test("A pull doesn't digest a store that its seals prove, and verify does")
    func shortcut() async throws {
        let scene = try await Scene()
        // No push writes such a manifest.
        try scene.publish { $0.contentRoot = scene.manifest.files[1].contentRoot }
        _ = try await scene.b.pull().value
        #expect(try Array(Data(contentsOf: scene.b.store)) == scene.content)
        #expect(try await scene.a.verify().value.problems.map(\.code) == ["corrupt"])
    }

    @Test("verify says of a store that has arrived in part that it may still be arriving")
    func cutStore() async throws {
        let scene = try await Scene()
        let url = scene.deltas.url(scene.manifest.path(of: .store, in: scene.deltas.document))
        try Data(scene.sealed.prefix(scene.sealed.count / 2)).write(to: url)
        let problems = try await scene.a.verify().value.problems
        #expect(problems.map { $0.message.contains("still arriving") } == [true], "\(problems)")
    }
}
