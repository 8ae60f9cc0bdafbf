import Foundation
import Operations
import RemoteStorage
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A verification concurrent with operations of other devices", .timeLimit(.minutes(60)))
struct VerificationRaceTests {
    /// A document that one device has pushed and another one has pulled, which verifies.
    private struct Scene {
        let fixture: Fixture
        let owner: Device
        let device: Device
        let connection: DyingBackend
        let store: UploadName

        init(password: String?) async throws {
            fixture = try Fixture(password: password)
            connection = DyingBackend(fixture.remote)
            (owner, device) = (try fixture.device("a"), try fixture.device("b", backend: connection))
            let client = try await owner.push(adding: "one").client
            _ = try await device.pull().value
            let hooks = DefaultHooks(backend: fixture.remote)
            let published = try await PublishedStores.list(hooks, fixture.hierarchy.document(fixture.document))
            store = try #require(published.published.first { $0.client == client })
        }

        var document: DocumentHierarchy { fixture.hierarchy.document(fixture.document) }

        /// Pushes until the owner has removed its first upload.
        func pushTwice() async throws { try await Self.pushTwice(by: owner) }

        static func pushTwice(by owner: Device) async throws {
            for note in ["two", "three"] {
                try owner.write(note)
                _ = try await owner.push(whole: true).value
            }
        }

        /// The uploads that the verifying device remembers as damaged.
        func damaged() throws -> Set<UploadName> {
            try device.state.damagedUploads(for: device.documentKey)
        }
    }

    @Test(
        "An upload that its owner removes before any request of the verification isn't damaged",
        arguments: [nil, "correct horse"]
    )
    func removedUpload(password: String?) async throws {
        var number = 0
        while true {
            let scene = try await Scene(password: password)
            // Without the connection, which keeps the closure if there are fewer requests.
            await scene.connection.meet(atRequest: number) { [owner = scene.owner] in
                await #expect(throws: Never.self) { try await Scene.pushTwice(by: owner) }
            }
            let report = try await scene.device.verify().value
            #expect(report.problems == [], "before request \(number)")
            #expect(try scene.damaged() == [], "before request \(number)")
            number += TestDepth.choose(quick: 5, deep: 1)
            guard await number < scene.connection.requests.count else { return }
        }
    }

    @Test("An upload whose owner removes it after its manifest was read isn't damaged", arguments: [nil, "secret"])
    func removedAfterManifest(password: String?) async throws {
        let scene = try await Scene(password: password)
        let path = WholeStoreFile.store.path(in: scene.document.upload(scene.store))
        await scene.connection.meet(at: { $0 == "read of \(path)" }) {
            await #expect(throws: Never.self) { try await scene.pushTwice() }
        }
        let report = try await scene.device.verify().value
        #expect(report.problems == [] && !FileManager.default.fileExists(atPath: scene.fixture.url(path).path))
        #expect(try scene.damaged() == [])
    }

    /// A storage that can't continue reading a file that was replaced or removed meanwhile.
    private actor InterruptedReads: InterceptingBackend {
        let base: any RemoteBackend
        private let path: RemotePath
        private let whileReading: @Sendable () async throws -> Void

        init(base: any RemoteBackend, path: RemotePath, whileReading: @escaping @Sendable () async throws -> Void) {
            (self.base, self.path, self.whileReading) = (base, path, whileReading)
        }

        func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
            let content = try await base.read(path, range: range)
            guard let content, path == self.path else { return content }
            return RemoteContent(length: content.length) { [whileReading] in
                {
                    try await whileReading()
                    throw RemoteError(.unavailable, "It was replaced or removed while it was read.", path: path)
                }
            }
        }
    }

    @Test("A verification continues if the storage can't finish reading a file because its owner has removed it")
    func interruptedRead() async throws {
        let scene = try await Scene(password: nil)
        let path = WholeStoreFile.store.path(in: scene.document.upload(scene.store))
        func verify(_ whileReading: @escaping @Sendable () async throws -> Void) async throws -> VerificationReport {
            let backend = InterruptedReads(base: scene.fixture.remote, path: path, whileReading: whileReading)
            return try await scene.device.with(backend: backend).verify().value
        }
        #expect(await code { try await verify {} } == .remoteUnavailable)
        #expect(try await verify { try await scene.pushTwice() }.problems == [])
        #expect(try scene.damaged() == [])
    }

    @Test("An upload that the storage hides while it's verified is reported by a device that knows it")
    func hiddenUpload() async throws {
        let scene = try await Scene(password: "secret")
        let path = WholeStoreFile.store.path(in: scene.document.upload(scene.store))
        let hidden = [scene.document.manifest(scene.store), scene.document.upload(scene.store)]
        await scene.connection.meet(at: { $0 == "read of \(path)" }) {
            await #expect(throws: Never.self) {
                for path in hidden { try await scene.fixture.remote.remove(path) }
            }
        }
        let problems = try await scene.device.verify().value.problems
        #expect(problems.map(\.path) == ["\(hidden[0])"] && problems.map(\.code) == ["rolledBack"], "\(problems)")
    }

    @Test(
        "A document that another device deletes before any request of the verification has no problems",
        arguments: [nil, "correct horse"]
    )
    func deletedDocument(password: String?) async throws {
        var number = 0
        while true {
            let scene = try await Scene(password: password)
            await scene.connection.meet(atRequest: number) { [owner = scene.owner] in
                await #expect(throws: Never.self) { try await owner.removeDocument().value }
            }
            #expect(try await scene.device.verify().value.problems == [], "before request \(number)")
            number += TestDepth.choose(quick: 5, deep: 1)
            guard await number < scene.connection.requests.count else { return }
        }
    }

    @Test(
        "An application that is removed before any request of its verification is missing, and has no problems",
        arguments: [nil, "correct horse"]
    )
    func removedApplication(password: String?) async throws {
        var number = 0
        while true {
            let scene = try await Scene(password: password)
            await scene.connection.meet(atRequest: number) { [owner = scene.owner] in
                await #expect(throws: Never.self) { try await owner.removeApplication().value }
            }
            let result = await scene.device.verify().result
            guard await number < scene.connection.requests.count else {
                #expect(try result.get().problems == [])
                return
            }
            let error = #expect(throws: StoreSyncError.self, "before request \(number)") { try result.get() }
            #expect(error?.code == .applicationMissing, "before request \(number)")
            number += TestDepth.choose(quick: 5, deep: 1)
        }
    }

    @Test(
        "A verification during the removal of the application warns that its problems may come from that",
        arguments: [nil, "correct horse"]
    )
    func removalInProgress(password: String?) async throws {
        let scene = try await Scene(password: password)
        let removing = DyingBackend(scene.fixture.remote)
        let found = Locked<Result<VerificationReport, any Error>?>(nil)
        await removing.meet(at: { $0 == "removal of \(scene.fixture.hierarchy.encryption)" }) {
            let result = await scene.device.verify().result
            found.withLock { $0 = result }
        }
        _ = try await scene.owner.with(backend: removing).removeApplication().value
        let result = found.withLock { $0 }
        let report = try #require(result).get()
        #expect(!report.problems.isEmpty)
        #expect(report.warnings.contains { $0.contains("storesync remove application") }, "\(report)")
    }

    @Test("A report isn't lost if the storage fails when only the warning of a removal remains to be found out")
    func failingWarning() async throws {
        let scene = try await Scene(password: nil)
        try await scene.fixture.remote.remove(try #require(scene.fixture.hierarchy.directories.last))
        func verify(dyingBefore request: Int?) async throws -> (report: VerificationReport, requestCount: Int) {
            let connection = DyingBackend(scene.fixture.remote)
            await connection.die(request.map { DyingBackend.Death(request: $0, isAfter: false) })
            let report = try await scene.device.with(backend: connection).verify().value
            return (report, await connection.requests.count)
        }
        let (whole, requestCount) = try await verify(dyingBefore: nil)
        #expect(whole.warnings.contains { $0.contains("storesync remove application") }, "\(whole)")
        // The last two requests list the directories.
        let (report, _) = try await verify(dyingBefore: requestCount - 2)
        #expect(report.problems == whole.problems && !report.problems.isEmpty)
        #expect(!report.warnings.contains { $0.contains("storesync remove application") }, "\(report)")
    }

    @Test("Edits that a vacuum removes while they are verified aren't missing")
    func vacuum() async throws {
        let fixture = try Fixture()
        let devices = try await fixture.devicesWithNotes("a", "b")
        let (a, b) = (devices[0], devices[1])
        func write(_ device: Device) async throws {
            try device.execute("INSERT INTO note (title, bytes) VALUES ('\(device.name)', randomblob(70000))")
            _ = try await device.synchronize().value
        }
        for _ in 0..<3 { try await write(a) }
        _ = try await a.vacuum().value
        try await write(a)
        _ = try await a.vacuum().value
        try await write(b)
        _ = try await a.synchronize().value
        let connection = DyingBackend(fixture.remote)
        let removed = Locked(0)
        await connection.meet(at: { $0.hasPrefix("read of ") && $0.hasSuffix(".syncchg") }) {
            await #expect(throws: Never.self) {
                let vacuum = try await a.vacuum().value
                removed.withLock { $0 = vacuum.removedFiles }
            }
        }
        #expect(try await b.with(backend: connection).verify().value.problems == [])
        #expect(removed.withLock(\.self) > 0)
    }
}
