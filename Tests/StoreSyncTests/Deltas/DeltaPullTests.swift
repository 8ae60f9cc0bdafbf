import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing

@testable import StoreSync

@Suite("Pulling deltas", .timeLimit(.minutes(60)))
struct DeltaPullTests {
    /// Two devices; "a" has pushed a whole copy and two deltas, and "b" has pulled the first `pulled` of them.
    private struct Scene {
        let deltas: DeltaFixture
        let a: Device
        let manifests: [StoreManifest]
        private var home: URL { deltas.fixture.folder.appending(path: "b", directoryHint: .isDirectory) }
        private var image: URL { deltas.fixture.folder.appending(path: "image", directoryHint: .isDirectory) }

        init(pulled: Int) async throws {
            deltas = try DeltaFixture()
            a = try deltas.fixture.device("a")
            let b = try deltas.fixture.device("b")
            var generator = SplitMix64(seed: 21)
            try RowStore.insert(100, into: a.store, &generator)
            for number in 1...3 {
                _ = try await a.push().value
                if number == pulled { _ = try await b.pull().value }
                if number < 3 { try RowStore.update(3, in: a.store, &generator) }
            }
            manifests = try await deltas.manifests(a)
            #expect(manifests.map(\.bases.count) == [0, 1, 2])
            try FileManager.default.copyItem(at: home, to: image)
        }

        /// The device "b" as it was before its next pull.
        func restoredDevice() throws -> (b: Device, connection: DyingBackend) {
            try FileManager.default.removeItem(at: home)
            try FileManager.default.copyItem(at: image, to: home)
            return try device()
        }

        /// The device "b" as it is.
        func device() throws -> (b: Device, connection: DyingBackend) {
            let connection = DyingBackend(deltas.fixture.remote)
            return (try deltas.fixture.device("b", backend: connection), connection)
        }

        func path(_ index: Int) -> RemotePath { manifests[index].path(of: .store, in: deltas.document) }

        /// The uploads whose stores were read, by their number in the chain.
        func uploadsRead(_ connection: DyingBackend) async -> [Int] {
            let names = await connection.requests.map(\.name)
            return manifests.indices.filter { names.contains("read of \(path($0))") }
        }

        func expectPulled(_ b: Device, _ comment: String = "") throws {
            #expect(try deltas.snapshot(of: b.store) == deltas.snapshot(of: a.store), "\(comment)")
        }
    }

    // A store with a log is read in place, a store without one is copied.
    @Test("Only the deltas are fetched that the local store lacks", arguments: 1...2, ["delete", "wal"])
    func amounts(pulled: Int, mode: String) async throws {
        let scene = try await Scene(pulled: pulled)
        let (b, connection) = try scene.device()
        try Store.setJournalMode(mode, of: b.store)
        _ = try await b.pull().value
        #expect(await scene.uploadsRead(connection) == Array(pulled..<3))
        try scene.expectPulled(b)
        // A store that is none of the uploads is replaced by a complete download.
        try b.write("local")
        _ = try await b.pull(overwrite: true).value
        #expect(await scene.uploadsRead(connection) == [0, 1, 2])
        try scene.expectPulled(b)
    }

    @Test("After a death at any request the next pull completes, and fetches no whole copy either")
    func deaths() async throws {
        let scene = try await Scene(pulled: 1)
        let (whole, counting) = try scene.restoredDevice()
        let before = try Data(contentsOf: whole.store)
        _ = try await whole.pull().value
        let count = await counting.requests.count
        #expect(count > 5)
        for request in 0..<count {
            for isAfter in [false, true] {
                let death = DyingBackend.Death(request: request, isAfter: isAfter)
                let (dying, connection) = try scene.restoredDevice()
                await connection.die(death)
                _ = try? await dying.pull().value
                let (b, next) = try scene.device()
                let after = try Data(contentsOf: b.store)
                #expect(try after == before || after == scene.deltas.snapshot(of: scene.a.store), "\(death)")
                _ = try await b.pull().value
                #expect(await !scene.uploadsRead(next).contains(0), "\(death)")
                try scene.expectPulled(b, "\(death)")
            }
        }
    }

    @Test("A store that is edited meanwhile isn't replaced", arguments: 1...2)
    func edited(number: Int) async throws {
        let scene = try await Scene(pulled: 1)
        let (rehearsing, counting) = try scene.restoredDevice()
        _ = try await rehearsing.pull().value
        let request = await counting.requests.firstIndex { $0.name == "read of \(scene.path(number))" }
        let (b, connection) = try scene.restoredDevice()
        try await connection.meet(atRequest: #require(request)) {
            do { try b.write("meanwhile") } catch { Issue.record(error) }
        }
        #expect(await code { try await b.pull().value } == .localChanges)
        #expect(try b.notes() == ["meanwhile"])
    }

    @Test("A local store that was exchanged before it's copied is noticed, and a complete download replaces nothing")
    func exchanged() async throws {
        let scene = try await Scene(pulled: 1)
        let (b, connection) = try scene.restoredDevice()
        let manifest = scene.manifests[2]
        let registration = try await b.registerDocument(mayCreate: false).value
        let chain = try StoreChain(manifest, among: scene.manifests)
        // As if the store had been edited after its digest was computed.
        try b.write("meanwhile")
        let edited = try scene.deltas.snapshot(of: b.store)
        try await b.supervisor.add(options: OperationOptions(name: "fetch")) { context in
            let arrival = StoreArrival(
                assembler: StoreAssembler(
                    hierarchy: scene.deltas.document,
                    seal: registration.application.seal,
                    identity: registration.identity,
                    progress: TransferProgress(context, phase: "downloading", totalBytes: 1),
                    open: { try await connection.read($0, range: $1) }
                ),
                journal: b.state.pullJournal(of: LocalPath(b.store.path), in: b.documentKey),
                document: b.documentKey,
                integrityKey: registration.integrityKey,
                store: try LocalStore(b.store),
                local: scene.manifests[0][.store].map { LocalContent(root: $0.contentRoot) }
            )
            try await arrival.fetch(chain)
        }.value
        #expect(await scene.uploadsRead(connection) == [0, 1, 2])
        #expect(try scene.deltas.snapshot(of: b.store) == edited)
    }

    @Test("A damaged delta is refused, and the local store stays", arguments: 1...2)
    func damaged(number: Int) async throws {
        let scene = try await Scene(pulled: 1)
        let (b, _) = try scene.restoredDevice()
        let before = try Data(contentsOf: b.store)
        let url = scene.deltas.url(scene.path(number))
        var bytes = try Data(contentsOf: url)
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: url)
        let error = await #expect(throws: StoreSyncError.self) { try await b.pull().value }
        #expect(error?.code == .tampered || error?.code == .corrupt)
        #expect(try Data(contentsOf: b.store) == before)
    }
}
