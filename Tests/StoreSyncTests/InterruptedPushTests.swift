import Foundation
import Operations
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

/// A storage that cancels an operation when it has written the operation's manifest.
private actor CancellingBackend: InterceptingBackend {
    let base: any RemoteBackend
    private let cancel = Locked<(@Sendable () throws -> Void)?>(nil)

    init(_ base: any RemoteBackend) { self.base = base }

    /// Calls `cancel` when the next manifest was written.
    nonisolated func onManifest(_ cancel: @escaping @Sendable () throws -> Void) {
        self.cancel.withLock { $0 = cancel }
    }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        let item = try await base.write(content, to: path, when: condition)
        guard path.lastComponent?.hasPrefix("manifest-") == true, let cancel = cancel.withLock({ $0.take() }) else {
            return item
        }
        try cancel()
        return item
    }
}

@Suite("A push that is interrupted after its publication", .timeLimit(.minutes(60)))
struct InterruptedPushTests {
    private static let death = RemoteError(.unavailable, "The device is dead.")

    /// Pushes twice, and edits the store.
    private static func prepare(_ device: Device) async throws {
        for note in ["one", "two"] {
            try await device.push(adding: note)
        }
        try device.write("three")
    }

    /// Expects that the fixed names are the upload of the third generation, and that the first generation is gone.
    private static func expectComplete(_ fixture: Fixture, sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let published = try await PublishedStores.list(DefaultHooks(backend: fixture.remote), hierarchy)
        #expect(published.published.map(\.generation).sorted() == [2, 3], sourceLocation: sourceLocation)
        #expect(published.folders.map(\.generation).sorted() == [2, 3], sourceLocation: sourceLocation)
        let upload = try #require(published.published.max(), sourceLocation: sourceLocation)
        for file in WholeStoreFile.allCases {
            let fixed = try await fixture.remote.bytes(at: file.path(in: hierarchy.wholeStores(upload.client)))
            let uploaded = try await fixture.remote.bytes(at: file.path(in: hierarchy.upload(upload)))
            #expect(fixed != nil && fixed == uploaded, "\(file)", sourceLocation: sourceLocation)
        }
    }

    @Test("The next push completes an interrupted push: it refreshes fixed names, and removes old generations")
    func nextPush() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await Self.prepare(a)
        let isDead = Locked(false)
        let dying = try fixture.device("a") { step in
            if step == "after push" { isDead.withLock { $0 = true } }
            if isDead.withLock({ $0 }) { throw Self.death }
        }
        #expect(await code { try await dying.push().value } == .remoteUnavailable)
        #expect(try await a.push().value.isUnchanged)
        try await Self.expectComplete(fixture)
        #expect(try await a.push().value.isUnchanged)
    }

    @Test("A push interrupted after its publication says so in its next attempt, and completes the work")
    func nextAttempt() async throws {
        let fixture = try Fixture()
        try await Self.prepare(fixture.device("a"))
        let hasFailed = Locked(false)
        let a = try fixture.device("a") { step in
            guard step == "before push" else { return }
            let isFirst = hasFailed.withLock { hasFailed in
                defer { hasFailed = true }
                return !hasFailed
            }
            if isFirst { throw Self.death }
        }
        let document = try await a.registerDocument().value
        let upload = try await a.push(to: document, options: .retriedOnce).value
        #expect(hasFailed.withLock { $0 })
        #expect(!upload.isUnchanged && upload.generation == 3)
        try await Self.expectComplete(fixture)
    }

    @Test("A large push records its time when it publishes, and not before")
    func time() async throws {
        let fixture = try Fixture()
        let steps = Locked<[String]>([])
        let a = try fixture.device("a") { step in
            steps.withLock { $0.append(step) }
            if step.hasPrefix("before write"), step.contains("/manifest-") { throw Self.death }
        }
        try Data(count: 3 << 20).write(to: a.store)
        #expect(await code { try await a.push().value } == .remoteUnavailable)
        func hasTime() -> Bool { steps.withLock { $0.contains { $0.contains(".recentsync") } } }
        #expect(!hasTime())
        let publishing = try fixture.device("a") { step in steps.withLock { $0.append(step) } }
        _ = try await publishing.push().value
        #expect(hasTime())
    }

    @Test("Another push finds the store of an interrupted push unchanged, also in its own next attempt")
    func nextAttemptOfAnother() async throws {
        let fixture = try Fixture()
        try await Self.prepare(fixture.device("a"))
        let dying = try fixture.device("a") { if $0 == "before push" { throw Self.death } }
        #expect(await code { try await dying.push().value } == .remoteUnavailable)
        let fails = Locked(false)
        let a = try fixture.device("a") { step in
            guard step.hasPrefix("before list of"), fails.withLock({ $0 }) else { return }
            fails.withLock { $0 = false }
            throw Self.death
        }
        let document = try await a.registerDocument().value
        fails.withLock { $0 = true }
        #expect(try await a.push(to: document, options: .retriedOnce).value.isUnchanged)
        #expect(!fails.withLock { $0 })
        try await Self.expectComplete(fixture)
    }

    @Test("An interrupted push is remembered until it ends, or until another push of the document publishes")
    func begunUploads() throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let ids = (0..<2).map { _ in supervisor.add { _ in }.id }
        let key = DocumentKey(
            application: ApplicationKey(remote: "remote", application: "application"),
            document: "notes"
        )
        let client = try RemoteIdentifier("client")
        let names = (1...3).map { UploadName(client: client, generation: $0, upload: UUID().uuidString) }
        let begun = BegunUploads()
        begun.note(names[0], of: key, by: ids[0], ["one"])
        begun.note(names[1], of: key, by: ids[0], ["two"])
        #expect(begun.warnings(about: names[0], of: key, by: ids[0]) == ["one"])
        #expect(begun.warnings(about: names[1], of: key, by: ids[0]) == ["two"])
        begun.note(names[2], of: key, by: ids[1], [])
        for name in names { #expect(begun.warnings(about: name, of: key, by: ids[0]) == nil) }
        begun.forgetUploads(of: key, by: ids[0])
        #expect(begun.warnings(about: names[2], of: key, by: ids[1]) == [])
        begun.forgetUploads(of: key, by: ids[1])
        #expect(begun.warnings(about: names[2], of: key, by: ids[1]) == nil)
        supervisor.cancelAll()
    }

    @Test("The next push completes a push that was cancelled while it was published")
    func cancelled() async throws {
        let fixture = try Fixture()
        let backend = CancellingBackend(LocalFolderBackend(root: fixture.share))
        let a = try fixture.device("a", backend: backend)
        try await Self.prepare(a)
        backend.onManifest { throw CancellationError() }
        await #expect(throws: CancellationError.self) { try await a.push().value }
        #expect(try await a.push().value.isUnchanged)
        try await Self.expectComplete(fixture)
        let b = try fixture.device("b")
        _ = try await b.pull().value
        #expect(try b.notes() == ["one", "two", "three"])
    }

    @Test("A push succeeds with warnings in plain sentences if its tidying up fails or is cancelled")
    func tidyingUp() async throws {
        let failure = RemoteError(.unavailable, "The share doesn't answer. Try again.", cause: Self.death)
        for (error, sentence) in [
            (failure as any Error, "The share doesn't answer. Try again."),
            (CancellationError(), "The operation was cancelled before it had done this."),
        ] {
            let fixture = try Fixture()
            try await Self.prepare(fixture.device("a"))
            let a = try fixture.device("a") { step in
                if step.hasPrefix("before copy") || step.hasPrefix("before removal") { throw error }
            }
            let upload = try await a.push().value
            #expect(!upload.isUnchanged && upload.generation == 3)
            #expect(
                upload.warnings == [
                    "The copy for programs that know only TICoreDataSync wasn't refreshed. \(sentence)",
                    "Some former uploads are still on the remote. \(sentence)",
                ]
            )
        }
    }

    @Test(
        "A push succeeds with a warning if this device's memory can't record it",
        arguments: [StoreSyncError.Code.busy, .corrupt, .cannotWrite]
    )
    func notRecorded(code: StoreSyncError.Code) async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.write("one")
        let pushing = try fixture.device("a") { step in
            if step == "before push" { throw StoreSyncError(code, "The memory fails.") }
        }
        let upload = try await pushing.push().value
        #expect(!upload.isUnchanged && upload.warnings.contains { $0.contains("The memory fails.") })
        #expect(try await a.push().value.isUnchanged)
        let pulling = try fixture.device("b") { step in
            if step == "before pull" { throw StoreSyncError(code, "The memory fails.") }
        }
        let download = try await pulling.pull().value
        #expect(!download.isUnchanged && download.warnings.contains { $0.contains("The memory fails.") })
        #expect(try b.notes() == ["one"])
        #expect(try await b.pull().value.isUnchanged)
    }
}
