import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("An upload includes exactly what it names", .timeLimit(.minutes(60)))
struct LineageScenarioTests {
    /// Devices with one document, on a storage in memory.
    private struct Scene {
        let fixture: Fixture
        let backend = InMemoryBackend()

        init() throws { fixture = try Fixture() }

        func device(_ name: String, backend: (any RemoteBackend)? = nil) throws -> Device {
            try fixture.device(name, backend: backend ?? self.backend)
        }

        var hierarchy: DocumentHierarchy { fixture.hierarchy.document(fixture.document) }

        /// Returns the uploads and folders in the directories of the document's stores.
        func uploads() async throws -> PublishedStores {
            try await PublishedStores.list(DefaultHooks(backend: backend), hierarchy)
        }
    }

    /// Makes two devices push edits without knowing of each other's.
    private func diverge(_ a: Device, _ b: Device) async throws -> (a: RemoteIdentifier, b: RemoteIdentifier) {
        try await a.push(adding: "base")
        _ = try await b.pull().value
        try a.write("from a")
        try b.write("from b")
        return (try await a.push().value.client, try await b.push().value.client)
    }

    @Test("D16: A store whose manifest is hidden isn't taken for one of TICoreDataSync")
    func hiddenManifest() async throws {
        let scene = try Scene()
        let a = try scene.device("a")
        let upload = try await a.push(adding: "one")
        let view = VeiledBackend(scene.backend)
        let b = try scene.device("b", backend: view)
        let name = try #require(try await scene.uploads().published.first)
        await view.hide([scene.hierarchy.manifest(name)])
        #expect(await code { try await b.pull().value } == .noUploadedStore)
        #expect(await code { try await b.pull(from: upload.client).value } == .noUploadedStore)
        await view.showAll()
        _ = try await b.pull().value
        #expect(try b.notes() == ["one"])
    }

    @Test("D16: A store that was pulled without its manifest is replaced only if the user gives it up")
    func pulledWithoutManifest() async throws {
        let scene = try Scene()
        let (a, c) = (try scene.device("a"), try scene.device("c"))
        let view = VeiledBackend(scene.backend)
        let b = try scene.device("b", backend: view)
        try await a.push(adding: "one")
        _ = try await b.pull().value
        _ = try await c.pull().value
        let upload = try await c.push(adding: "two")
        let name = try #require(try await scene.uploads().published.first { $0.client == upload.client })
        await view.hide([scene.hierarchy.manifest(name), scene.hierarchy.upload(name)])
        // What b sees of this client is what TICoreDataSync leaves.
        _ = try await b.pull(from: upload.client).value
        #expect(try b.notes() == ["one", "two"])
        #expect(await code { try await b.pull().value } == .localChanges)
        #expect(try b.notes() == ["one", "two"])
        _ = try await b.pull(overwrite: true).value
        #expect(try b.notes() == ["one"])
    }

    @Test("D16: A device that pulls one head and then the other supersedes neither")
    func sides() async throws {
        let scene = try Scene()
        let (a, b, c) = (try scene.device("a"), try scene.device("b"), try scene.device("c"))
        let clients = try await diverge(a, b)
        _ = try await c.pull(from: clients.b).value
        try await c.push(adding: "c on b")
        _ = try await c.pull(from: clients.a).value
        let second = try await c.push(adding: "c on a")
        #expect(Set(second.divergedFrom) == [second.client], "its former upload holds an edit that this store lacks")
        for round in 1...4 {
            try await c.push(adding: "round \(round)")
        }
        let reader = try scene.device("reader")
        _ = try await reader.pull(from: second.client, generation: second.generation - 1).value
        #expect(try reader.notes() == ["base", "from b", "c on b"], "it stays as long as no other upload includes it")
        #expect(await code { try await b.pull().value } == .diverged)
        #expect(try b.notes() == ["base", "from b"])
    }

    @Test("A clone's upload that appears after twelve more uploads of the original is a head")
    func lateClone() async throws {
        let scene = try Scene()
        let original = try scene.device("original")
        let client = try await original.push(adding: "base").client
        let clone = try IdentityTests.clone(of: original, as: "clone", in: scene.fixture, scene.backend)
        try await clone.push(adding: "of the clone")
        let late = try #require(try await scene.uploads().published.max())
        let paths = [scene.hierarchy.manifest(late), scene.hierarchy.upload(late)]
        // The original doesn't see it yet.
        let veiled = VeiledBackend(scene.backend)
        await veiled.hide(paths)
        let behind = try scene.device("original", backend: veiled)
        for round in 1...12 {
            try behind.write("round \(round)")
            #expect(try await behind.push().value.client == client)
        }
        #expect(await code { try await clone.pull().value } == .diverged)
        #expect(try clone.notes() == ["base", "of the clone"])
    }

    @Test("A third device can resolve a divergence of two devices that no longer exist")
    func deadDevices() async throws {
        let scene = try Scene()
        let (a, b, c) = (try scene.device("a"), try scene.device("b"), try scene.device("c"))
        let clients = try await diverge(a, b)
        #expect(await code { try await c.pull().value } == .diverged)
        _ = try await c.pull(from: clients.a).value
        try c.write("from b")
        #expect(try await c.push().value.divergedFrom == [clients.b])
        let settled = try await c.push(resolves: true).value
        #expect(settled.divergedFrom.isEmpty && !settled.isUnchanged)
        let reader = try scene.device("reader")
        _ = try await reader.pull().value
        #expect(try reader.notes() == ["base", "from a", "from b"])
        #expect(try await c.push(resolves: true).value.isUnchanged, "no divergence is left to resolve")
    }

    @Test("A former generation of a client can be pulled as long as it exists, and a missing one is reported")
    func formerGeneration() async throws {
        let scene = try Scene()
        let (a, b) = (try scene.device("a"), try scene.device("b"))
        let client = try await a.push(adding: "one").client
        try await a.push(adding: "two")
        _ = try await b.pull().value
        #expect(try await b.pull(from: client, generation: 1).value.generation == 1)
        #expect(try b.notes() == ["one"])
        #expect(await code { try await b.pull(from: client, generation: 7).value } == .noUploadedStore)
        // Pulling an older generation on purpose doesn't make it the newest that the device knows.
        #expect(try await b.pull().value.generation == 2)
        #expect(try b.notes() == ["one", "two"])
    }

    @Test("Two uploads of one client and generation are told apart by the beginning of their identifiers")
    func twins() async throws {
        let scene = try Scene()
        let original = try scene.device("original")
        let client = try await original.push(adding: "base").client
        let clone = try IdentityTests.clone(of: original, as: "clone", in: scene.fixture, scene.backend)
        let veiled = VeiledBackend(scene.backend)
        try await original.push(adding: "of the original")
        let first = try #require(try await scene.uploads().published.max())
        await veiled.hide([scene.hierarchy.manifest(first), scene.hierarchy.upload(first)])
        let blind = try scene.device("clone", backend: veiled)
        try blind.write("of the clone")
        #expect(try await blind.push().value.generation == 2)
        let reader = try scene.device("reader")
        #expect(await code { try await reader.pull(from: client, generation: 2).value } == .diverged)
        let request = WholeStoreDownloadRequest(
            url: reader.store,
            upload: .init(of: client, generation: 2, identifier: String(first.upload.prefix(8)).lowercased())
        )
        let registration = try await reader.registerDocument(mayCreate: false).value
        let pull = WholeStoreDownloadOperation(
            request,
            document: registration,
            backend: reader.backend,
            state: reader.state
        )
        _ = try await reader.supervisor.add(pull).value
        #expect(try reader.notes() == ["base", "of the original"])
        withExtendedLifetime(clone) {}
    }

    @Test("A push of a store that descends from no upload is refused if uploads exist, and the error says what to do")
    func unrelated() async throws {
        let scene = try Scene()
        let (a, b) = (try scene.device("a"), try scene.device("b"))
        try await a.push(adding: "one")
        try b.write("other")
        let error = await #expect(throws: StoreSyncError.self) { try await b.push().value }
        #expect(error?.code == .unrelatedStore && error?.message.contains("--resolves") == true)
        #expect(try await scene.uploads().published.count == 1)
        let resolved = try await b.push(resolves: true).value
        #expect(resolved.divergedFrom.isEmpty)
        _ = try await a.pull().value
        #expect(try a.notes() == ["other"])
    }

    @Test("A store whose device has lost its memory continues from the upload with the same content")
    func equalContent() async throws {
        let scene = try Scene()
        let a = try scene.device("a")
        try await a.push(adding: "one")
        let b = try scene.device("b")
        try FileManager.default.copyItem(at: a.store, to: b.store)
        #expect(try await b.push().value.isUnchanged)
        try b.write("two")
        #expect(try await b.push().value.divergedFrom.isEmpty)
        _ = try await a.pull().value
        #expect(try a.notes() == ["one", "two"])
    }

    @Test("Uploads that this device has removed and that are put back cause neither a new identity nor a divergence")
    func resurrectedOwn() async throws {
        let scene = try Scene()
        let a = try scene.device("a")
        var files: [RemotePath: [UInt8]] = [:]
        for round in 1...4 {
            let client = try await a.push(adding: "round \(round)").client
            guard round == 1, let name = try await scene.uploads().published.first else { continue }
            #expect(name.client == client)
            files[scene.hierarchy.manifest(name)] = try await scene.backend.bytes(at: scene.hierarchy.manifest(name))
            for item in try await scene.backend.list(scene.hierarchy.upload(name)) ?? [] {
                let path = try scene.hierarchy.upload(name).appending(item.name)
                files[path] = try await scene.backend.bytes(at: path)
            }
        }
        let before = try await a.push().value
        #expect(files.count == 4)
        for (path, bytes) in files { try await scene.backend.write(bytes, to: path, when: .ifAbsent) }
        let after = try await a.push(adding: "after")
        #expect(after.client == before.client && after.divergedFrom.isEmpty)
        let b = try scene.device("b")
        #expect(try await b.pull().value.generation == after.generation)
    }

    @Test("A manifest's name alone raises no generation and causes no new identity", arguments: [false, true])
    func plantedName(isOwn: Bool) async throws {
        let scene = try Scene()
        let a = try scene.device("a")
        let first = try await a.push(adding: "one")
        let owner = isOwn ? first.client : try RemoteIdentifier("stranger")
        let name = UploadName(client: owner, generation: (1 << 53) - 2, upload: UUID().uuidString)
        try await scene.backend.write([UInt8](), to: scene.hierarchy.manifest(name), when: .ifAbsent)
        let second = try await a.push(adding: "two")
        #expect(second.generation == 2 && second.client == first.client)
        let b = try scene.device("b")
        #expect(try await b.pull().value.generation == 2)
        try await scene.backend.remove(scene.hierarchy.manifest(name))
        try a.write("three")
        #expect(try await a.push().value.generation == 3)
    }

    @Test("An unchanged store on which another device has built isn't uploaded, even if its upload was removed")
    func outdated() async throws {
        let scene = try Scene()
        let (a, b) = (try scene.device("a"), try scene.device("b"))
        try await b.push(adding: "one")
        _ = try await a.pull().value
        for round in 1...3 {
            try await b.push(adding: "round \(round)")
        }
        let before = try await scene.uploads().published
        #expect(!before.contains { $0.generation == 1 }, "the upload with its content has been removed")
        let upload = try await a.push().value
        #expect(upload.isUnchanged && upload.generation == 1 && upload.divergedFrom.isEmpty)
        #expect(try await scene.uploads().published == before)
        _ = try await a.pull().value
        #expect(try a.notes() == b.notes())
    }

    @Test("A push doesn't replace a head that can't be inspected, unless the user declares it lost with --whole")
    func incompleteHead() async throws {
        let scene = try Scene()
        let (a, b) = (try scene.device("a"), try scene.device("b"))
        let clients = try await diverge(a, b)
        let head = try #require(try await scene.uploads().published.filter { $0.client == clients.b }.max())
        let store = WholeStoreFile.store.path(in: scene.hierarchy.upload(head))
        let content = try #require(try await scene.backend.bytes(at: store))
        try await scene.backend.remove(store)
        let before = try await scene.uploads().published
        let error = await #expect(throws: StoreSyncError.self) { try await a.push(resolves: true).value }
        #expect(error?.code == .noUploadedStore && error?.message.contains("--resolves --whole") == true)
        #expect(try await scene.uploads().published == before)
        try await scene.backend.write(content, to: store, when: .ifAbsent)
        #expect(try await a.push(resolves: true).value.divergedFrom.isEmpty)
        try b.write("more of b")
        _ = try await b.push(whole: true).value
        let newer = try #require(try await scene.uploads().published.filter { $0.client == clients.b }.max())
        try await scene.backend.remove(scene.hierarchy.upload(newer))
        #expect(await code { try await a.push(resolves: true).value } == .noUploadedStore)
        #expect(try await a.push(resolves: true, whole: true).value.divergedFrom.isEmpty)
    }

    @Test("A push names the manifests that it can't read, and a planted manifest doesn't keep former uploads alive")
    func unreadableManifest() async throws {
        let scene = try Scene()
        let (a, b) = (try scene.device("a"), try scene.device("b"))
        let clients = try await diverge(a, b)
        let head = try #require(try await scene.uploads().published.filter { $0.client == clients.b }.max())
        let manifest = try #require(try await scene.backend.bytes(at: scene.hierarchy.manifest(head)))
        try await scene.backend.write(Array(manifest.dropLast(9)), to: scene.hierarchy.manifest(head), when: .always)
        let planted = UploadName(client: clients.a, generation: 1, upload: UUID().uuidString)
        try await scene.backend.write([UInt8](), to: scene.hierarchy.manifest(planted), when: .ifAbsent)
        for round in 1...4 {
            let upload = try await a.push(adding: "round \(round)")
            #expect(upload.warnings.contains { $0.contains("\(head)") }, "\(upload.warnings)")
        }
        let own = try await scene.uploads().published.filter { $0.client == clients.a && $0 != planted }
        #expect(own.count == 2, "\(own)")
    }

    @Test("A push with more uploads than a manifest can name is refused until abandoned clients are removed")
    func makingRoom() async throws {
        let scene = try Scene()
        let a = try scene.device("a")
        try await a.push(adding: "one")
        let first = try #require(try await scene.uploads().published.first)
        let own = try #require(try await scene.backend.bytes(at: scene.hierarchy.manifest(first)))
        let files = try StoreManifest(own, named: first, at: scene.hierarchy.manifest(first)).files
        var contents: [WholeStoreFile: [UInt8]] = [:]
        for file in WholeStoreFile.allCases {
            let path = file.path(in: scene.hierarchy.upload(first))
            contents[file] = try await scene.backend.bytes(at: path)
        }
        #expect(contents.count == WholeStoreFile.allCases.count)
        /// Publishes heads of jobs that never run again, as many of each job as are read.
        func publish(_ jobs: Range<Int>) async throws {
            for number in jobs.flatMap({ Array(repeating: $0, count: PublishedStores.manifestsRead) }) {
                let client = try RemoteIdentifier("job-\(number)")
                let name = UploadName(client: client, generation: 1, upload: UUID().uuidString)
                let manifest = StoreManifest(name: name, created: Date(), files: files, includes: [])
                for (file, content) in contents {
                    let path = file.path(in: scene.hierarchy.upload(name))
                    try await scene.backend.write(content, to: path, when: .ifAbsent)
                }
                try await scene.backend.write(manifest.xml, to: scene.hierarchy.manifest(name), when: .ifAbsent)
            }
        }
        let most = StoreManifest.maximumNames / PublishedStores.manifestsRead
        try await publish(0..<most - 1)
        try a.write("two")
        #expect(try await a.push(resolves: true).value.divergedFrom.isEmpty)
        try await publish(most..<most + 2)
        try a.write("three")
        let folders = try await scene.uploads().folders.count
        let error = await #expect(throws: StoreSyncError.self) { try await a.push(resolves: true).value }
        #expect(error?.code == .cannotWrite && error?.message.contains("remove client") == true)
        #expect(try await scene.uploads().folders.count == folders, "nothing was sent")
        for number in 0..<2 {
            let note = scene.fixture.hierarchy.deletedClient(try RemoteIdentifier("job-\(number)"))
            try await scene.backend.write([UInt8](), to: note, when: .ifAbsent)
        }
        #expect(try await a.push(resolves: true).value.divergedFrom.isEmpty)
        let left = try await scene.uploads().published
        let jobs = Set(left.map(\.client.rawValue)).filter { $0.hasPrefix("job-") }
        #expect(!jobs.contains("job-0") && !jobs.contains("job-1") && jobs.count == most - 1)
    }

    @Test("A push that would name more uploads than a reader accepts is refused, and the error says what to do")
    func tooManyClients() async throws {
        let scene = try Scene()
        let a = try scene.device("a")
        try await a.push(adding: "one")
        // As if the device had pulled the uploads of that many jobs, all of which exist.
        var record = try #require(try a.state.stores(of: a.documentKey).first)
        let jobs = try RemoteIdentifier("jobs")
        for _ in 0...StoreManifest.maximumNames {
            let name = UploadName(client: jobs, generation: 1, upload: UUID().uuidString)
            record.contained.insert(name)
            try await scene.backend.write([1], to: scene.hierarchy.manifest(name), when: .always)
        }
        try a.state.commitPull(record)
        try a.write("two")
        let error = await #expect(throws: StoreSyncError.self) { try await a.push().value }
        #expect(error?.code == .cannotWrite && error?.message.contains("storesync remove client") == true)
        #expect(try await scene.uploads().published.count(where: { $0.generation == 2 }) == 0)
    }
}
