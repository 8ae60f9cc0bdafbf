import Foundation
import GRDB
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("The applied sets of a pull follow its store, also if the pull dies", .timeLimit(.minutes(60)))
struct InterruptedPullTests {
    @Test(
        "A push after a pull that died when it had replaced the store uploads the applied sets of the pull",
        arguments: ["edited", "pushed, then edited"]
    )
    func push(store: String) async throws {
        let scene = try await TwoHeads.withAppliedSets()
        try await scene.pullDying(before: "pull")
        #expect(try scene.a.notes() == ["base", "from b"], "the device died after the store was replaced")
        if store == "pushed, then edited" { #expect(try await scene.a.push().value.isUnchanged) }
        let client = try await scene.a.push(adding: "after").client
        let published = try await PublishedStores.list(DefaultHooks(backend: scene.backend), scene.hierarchy)
        let upload = try #require(published.published.filter { $0.client == client }.max())
        for file in WholeStoreFile.appliedSets {
            #expect(try await scene.applied(file, in: upload) == ["of b"])
        }
    }

    @Test("A push after a pull that died before it replaced the store uploads the applied sets of the store")
    func notReplaced() async throws {
        let scene = try await TwoHeads.withAppliedSets()
        try await scene.pullDying(before: "pull begun")
        let client = try await scene.a.push(adding: "after").client
        let published = try await PublishedStores.list(DefaultHooks(backend: scene.backend), scene.hierarchy)
        let upload = try #require(published.published.filter { $0.client == client }.max())
        for file in WholeStoreFile.appliedSets {
            #expect(try await scene.applied(file, in: upload).isEmpty)
        }
    }

    @Test("A pull doesn't use the applied sets of a former pull that failed")
    func leftByAFormerPull() async throws {
        let scene = try await TwoHeads.withAppliedSets()
        try await scene.pullDying(before: "pull begun")
        // What a client of TICoreDataSync may leave: a store without a manifest and without a set of applied commands.
        let published = try await PublishedStores.list(DefaultHooks(backend: scene.backend), scene.hierarchy)
        for name in published.published where name.client == scene.clientB {
            try await scene.backend.remove(scene.hierarchy.manifest(name))
            try await scene.backend.remove(scene.hierarchy.upload(name))
        }
        let fixed = scene.hierarchy.wholeStores(scene.clientB)
        try await scene.backend.remove(WholeStoreFile.appliedSyncCommandSets.path(in: fixed))
        _ = try await scene.a.pull(from: scene.clientB).value
        #expect(try scene.appliedOfA(.appliedSyncChangeSets) == ["of b"])
        #expect(try scene.appliedOfA(.appliedSyncCommandSets).isEmpty)
    }

    @Test(
        "A pull that fails before it replaces the store leaves this device's record of the store as it was",
        arguments: [
            ("before the rename", WholeStoreDownloadRequest.Replacement.file, StoreSyncError.Code.cannotWrite),
            ("veto", .file, .storeNotFound), ("before the transaction", .transaction, .busy),
        ]
    )
    func failedBefore(moment: String, replacement: WholeStoreDownloadRequest.Replacement, code: StoreSyncError.Code)
        async throws
    {
        let scene = try await TwoHeads()
        _ = try await scene.a.pull().value
        let client = try await scene.a.push(adding: "newest").client
        let records = try scene.a.state.stores(of: scene.a.documentKey)
        try await scene.failToPull(from: client, replacement, at: moment, code)
        #expect(try scene.a.state.stores(of: scene.a.documentKey) == records)
        try scene.a.write("after")
        #expect(try await scene.a.push().value.divergedFrom.isEmpty)
        _ = try await scene.b.pull().value
        #expect(try scene.b.notes() == ["base", "from b", "newest", "after"])
    }

    @Test("A pull whose transaction may be on disk although its commit failed stays pending")
    func failedCommit() async throws {
        let scene = try await TwoHeads()
        _ = try await scene.a.pull().value
        let client = try await scene.a.push(adding: "newest").client
        try await scene.failToPull(from: client, .transaction, at: "before the transaction", .cannotWrite)
        #expect(try scene.a.state.stores(of: scene.a.documentKey).map { $0.pending?.base?.generation } == [1])
    }
}

extension TwoHeads {
    /// Pulls the first upload on device `a`, which fails at a moment of the replacement.
    fileprivate func failToPull(
        from client: RemoteIdentifier,
        _ replacement: WholeStoreDownloadRequest.Replacement,
        at moment: String,
        _ expected: StoreSyncError.Code
    ) async throws {
        let before = try a.notes()
        let fail: @Sendable (String) throws -> Void = { step in
            if step == moment { throw StoreSyncError(expected, "The replacement fails.") }
        }
        let failing = try fixture.device("a", backend: backend, hook: fail)
        let pull = WholeStoreDownloadOperation(
            WholeStoreDownloadRequest(
                url: a.store,
                upload: .init(of: client, generation: 1),
                replacement: replacement
            ),
            document: try await failing.registerDocument(mayCreate: false).value,
            backend: backend,
            state: failing.state
        ) { _ in try fail("veto") }
        #expect(await code { try await failing.supervisor.add(pull).value } == expected)
        #expect(try a.notes() == before)
    }

    /// Creates the devices; the applied sets of `b` differ, too.
    fileprivate static func withAppliedSets() async throws -> TwoHeads {
        try await TwoHeads { b in
            for file in WholeStoreFile.appliedSets {
                let state = b.store.deletingLastPathComponent().appending(path: "state/applied")
                let directory = try #require(try FileManager.default.contentsOfDirectory(atPath: state.path).first)
                let queue = try DatabaseQueue(path: state.appending(path: "\(directory)/\(file.rawValue)").path)
                try await queue.write { try $0.execute(sql: "INSERT INTO appliedSet VALUES ('of b', 'today')") }
                try queue.close()
            }
        }
    }

    fileprivate var hierarchy: DocumentHierarchy { fixture.hierarchy.document(fixture.document) }

    /// Pulls the upload of `b` on device `a`, which dies before a change of its memory.
    fileprivate func pullDying(before change: String) async throws {
        let dying = try dying(before: change)
        #expect(await code { try await dying.pull(from: clientB).value } == .remoteUnavailable)
    }

    /// Returns what a file of applied sets says that is applied.
    fileprivate func applied(in url: URL) throws -> [String] {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        return try queue.read { try String.fetchAll($0, sql: "SELECT identifier FROM appliedSet") }
    }

    /// Returns what the applied sets of an upload on the remote say.
    fileprivate func applied(_ file: WholeStoreFile, in upload: UploadName) async throws -> [String] {
        let path = file.path(in: hierarchy.upload(upload))
        let copy = fixture.folder.appending(path: UUID().uuidString)
        try Data(#require(try await backend.bytes(at: path))).write(to: copy)
        return try applied(in: copy)
    }

    /// Returns what the applied sets of the store of `a` say.
    fileprivate func appliedOfA(_ file: WholeStoreFile) throws -> [String] {
        let copy = fixture.folder.appending(path: UUID().uuidString)
        try a.state.appliedSets(for: LocalStore(a.store).path, in: a.documentKey).copyOrCreate(file, at: copy)
        return try applied(in: copy)
    }
}
