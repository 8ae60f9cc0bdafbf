import Foundation
import Operations
import RemoteStorage
import RemoteStorageTesting
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A removal by two devices, after which a third one creates the same again", .timeLimit(.minutes(60)))
struct SuccessorRaceTests {
    /// The kinds of storage that differ in how something is created, moved and completed.
    private static let servers: [SimulatedServer] = [.apache, .aws]

    /// Expects that a new device pulls what the creator has pushed, and that all files are intact.
    private static func expectWhole(_ scene: RemovalScene, at place: InMemoryBackend, _ comment: String) async throws {
        let reader = try scene.device("reader", at: place).device
        _ = try await reader.pull().value
        #expect(try reader.notes() == ["three"], "\(comment)")
        let report = try await reader.verify().value
        #expect(report.problems.isEmpty, "\(comment): \(report)")
    }

    @Test(
        "H22: A document that is created again between any two requests of a slower removal stays",
        arguments: servers
    )
    func document(server: SimulatedServer) async throws {
        let scene = try await RemovalScene(server, isSealed: true)
        let (whole, counting) = try scene.device("a", at: try await scene.restore())
        await counting.die(nil)
        try await scene.remove(.document, by: whole)
        let requests = await counting.requests
        // Before the first change, the slower device may still decide to remove the new document.
        let first: Int = try #require(requests.firstIndex { $0.isChange })
        let move: Int = try #require(requests.firstIndex { $0.name.hasPrefix("move to ") })
        for number in first..<requests.count {
            let comment = "\(server), before request \(number): \(requests[number].name)"
            let place = try await scene.restore()
            let (a, connection) = try scene.device("a", at: place)
            let (b, c) = (try scene.device("b", at: place).device, try scene.device("c", at: place).device)
            try c.write("three")
            await connection.meet(atRequest: number) {
                do {
                    _ = try await b.removeDocument().value
                    _ = try await c.push(recreates: true).value
                } catch {
                    Issue.record("\(comment): \(error)")
                }
            }
            let removal = try await a.removeDocument().value
            #expect(removal.warnings.isEmpty == (number > move), "\(comment): \(removal)")
            let names = try await contents(of: place).keys
            #expect(
                !names.contains { $0.contains("/DeletedDocuments/notes.") && !$0.hasSuffix(".plist") },
                "\(comment)"
            )
            try await Self.expectWhole(scene, at: place, comment)
            try c.write("four")
            #expect(try await c.push().value.generation == 2, "\(comment)")
        }
    }

    @Test("H22: A removal that is tried again after a failure removes no document that was created since")
    func repeated() async throws {
        let scene = try await RemovalScene(.aws, isSealed: true)
        let place = try await scene.restore()
        let (b, c) = (try scene.device("b", at: place).device, try scene.device("c", at: place).device)
        try c.write("three")
        let failing = FailingBackend(place, at: scene.fixture.hierarchy.document(scene.fixture.document).root) {
            do {
                _ = try await b.removeDocument().value
                _ = try await c.push(recreates: true).value
            } catch {
                Issue.record("\(error)")
            }
        }
        let a = try scene.fixture.device("a", backend: failing)
        let removal = DocumentRemovalOperation(of: scene.fixture.document, a.access)
        #expect(await code { try await a.supervisor.add(removal).value } == .remoteUnavailable)
        #expect(try await !a.supervisor.add(removal).value.warnings.isEmpty)
        try await Self.expectWhole(scene, at: place, "tried again")
    }

    /// A storage that doesn't answer the first list of a directory, and runs a body at that moment.
    private actor FailingBackend: ForwardingBackend {
        nonisolated let base: any RemoteBackend
        private let directory: RemotePath
        private var body: (@Sendable () async -> Void)?

        init(_ base: any RemoteBackend, at directory: RemotePath, _ body: @escaping @Sendable () async -> Void) {
            self.base = base
            self.directory = directory
            self.body = body
        }

        func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
            guard directory == self.directory, let body = body.take() else { return try await base.list(directory) }
            await Task { await body() }.value
            throw RemoteError(.unavailable, "The answer was lost.")
        }
    }

    @Test(
        "H22: A document that is removed while another device finishes to create it again can be created once more",
        arguments: servers
    )
    func note(server: SimulatedServer) async throws {
        let scene = try await RemovalScene(server, isSealed: true)
        let note = "\(scene.fixture.hierarchy.deletedDocument(scene.fixture.document))"
        let (whole, counting) = try scene.device("a", at: try await scene.restore())
        try await scene.remove(.document, by: whole)
        await counting.die(nil)
        _ = try await whole.registerDocument(recreates: true).value
        let requests = await counting.requests
        let creation: Int = try #require(
            requests.firstIndex { $0.isChange && $0.name.hasSuffix("/documentInfo.plist") }
        )
        for number in creation + 1..<requests.count {
            let comment = "\(server), before request \(number): \(requests[number].name)"
            let place = try await scene.restore()
            let (a, connection) = try scene.device("a", at: place)
            let (b, c) = (try scene.device("b", at: place).device, try scene.device("c", at: place).device)
            try await scene.remove(.document, by: a)
            await connection.meet(atRequest: number) {
                do { _ = try await b.removeDocument().value } catch { Issue.record("\(comment): \(error)") }
            }
            _ = try? await a.registerDocument(recreates: true).value
            let error = await #expect(throws: StoreSyncError.self, "\(comment)") { try await b.pull().value }
            if requests[number].name == "removal of \(note)" {
                // The device had looked at the note before: no storage removes a file only if it's unchanged.
                #expect(error?.code == .documentMissing, "\(comment)")
                #expect(error?.message.contains("storesync remove document notes") == true, "\(comment)")
            } else {
                #expect(error?.code == .documentDeleted, "\(comment)")
            }
            _ = try await b.removeDocument().value
            try c.write("three")
            _ = try await c.push(recreates: true).value
            try await Self.expectWhole(scene, at: place, comment)
        }
    }

    @Test(
        "H23: An application that is created again during a slower removal stays, or its user is warned",
        arguments: servers
    )
    func application(server: SimulatedServer) async throws {
        let scene = try await RemovalScene(server, isSealed: true)
        let (whole, counting) = try scene.device("a", at: try await scene.restore())
        await counting.die(nil)
        try await scene.remove(.application, by: whole)
        let requests = await counting.requests
        let announcement: Int = try #require(requests.lastIndex { $0.name.hasPrefix("write of ") })
        let last: Int = try #require(requests.lastIndex { $0.isChange })
        // No storage removes a directory only if another file is unchanged: the very last removal isn't protected.
        for number in announcement + 1..<requests.count where number != last {
            let comment = "\(server), before request \(number): \(requests[number].name)"
            let place = try await scene.restore()
            let (a, connection) = try scene.device("a", at: place)
            let (b, c) = (try scene.device("b", at: place).device, try scene.device("c", at: place).device)
            try c.write("three")
            let isCreated = Locked(false)
            await connection.meet(atRequest: number) {
                // Without its keys, only the slower device itself can remove the rest.
                _ = try? await b.removeApplication().value
                if (try? await c.push().value) != nil { isCreated.withLock { $0 = true } }
            }
            let removal = try await a.removeApplication().value
            guard isCreated.withLock(\.self) else {
                #expect(try await contents(of: place).isEmpty, "\(comment)")
                continue
            }
            #expect(removal.warnings.isEmpty == (number > last), "\(comment): \(removal)")
            if !requests[number].isChange { try await Self.expectWhole(scene, at: place, comment) }
        }
    }
}
