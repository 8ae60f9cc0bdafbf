import FileSupport
import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

extension StoreWatchTests {
    @Test("A watch waits for a missing store after its first success; before that, it ends with the error")
    func missingStore() async throws {
        try await WatchScene.explore { scene in
            let missing = StoreSyncError(StoreChangesError(missingStore: URL(filePath: "/test.sqlite")))
            try scene.start()
            try await scene.pass(10)
            scene.outcomes = Array(repeating: .failure(missing), count: 6)
            scene.changeStore()
            try await scene.pass(50)
            let waits = [1, 2, 4, 8, 16, 32].flatMap { ["began", "storeNotFound \($0)"] }
            try #require(scene.events == ["began", "synchronized"] + waits)
            scene.outcomes = []
            scene.changeStore()
            try await scene.pass(5)
            try #require(scene.events.suffix(2) == ["began", "synchronized"], "the store's return ends the wait")
            try await scene.stop()
            scene.outcomes = [.failure(missing)]
            try scene.start()
            try await scene.expectEnd(.storeNotFound)
        }
    }

    @Test(
        "A watch ends with the error of a store that is there and can't be synchronized, also after its first success"
    )
    func unusableStore() async throws {
        try await WatchScene.explore(seeds: 1..<2) { scene in
            try scene.start()
            try await scene.pass(10)
            let unusable = StoreChangesError(
                .storeNotFound,
                "The test's store is encrypted.",
                cause: DatabaseError(resultCode: .SQLITE_NOTADB)
            )
            scene.outcomes = [.failure(StoreSyncError(unusable))]
            scene.changeStore()
            try await scene.expectEnd(.storeNotFound)
        }
    }

    /// A store behind a link, and what lets the link lead to another store, in a directory named "current".
    private func storeBehindLink(in folder: URL) throws -> (store: URL, redirect: () throws -> Void) {
        let files = FileManager.default
        for name in ["former", "current"] {
            let directory = folder.appending(path: name)
            try files.createDirectory(at: directory, withIntermediateDirectories: false)
            try Data("a".utf8).write(to: directory.appending(path: "store.sqlite"))
        }
        let link = folder.appending(path: "link")
        try files.createSymbolicLink(at: link, withDestinationURL: folder.appending(path: "former"))
        return (
            link.appending(path: "store.sqlite"),
            {
                try files.removeItem(at: link)
                try files.createSymbolicLink(at: link, withDestinationURL: folder.appending(path: "current"))
            }
        )
    }

    @Test("A store behind a link is watched where the link leads by now")
    func redirectedLink() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        let (store, redirect) = try storeBehindLink(in: fixture.folder)
        let environment = WatchEnvironment(
            store: store,
            document: ApplicationHierarchy(device.application).document(device.document),
            backend: device.backend,
            supervisor: device.supervisor
        ) { device.synchronize() }
        let (reports, continuation) = AsyncStream.makeStream(of: Bool.self)
        let isWritten = Locked(false)
        let lookAtStore = try await environment.watchStore { continuation.yield(isWritten.withLock(\.self)) }
        var iterator = reports.makeAsyncIterator()
        try redirect()
        await lookAtStore()
        #expect(await iterator.next() == false)
        isWritten.withLock { $0 = true }
        try Data("b".utf8).write(to: fixture.folder.appending(path: "current/store.sqlite"))
        while await iterator.next() == false {}
        withExtendedLifetime(lookAtStore) {}
    }

    @Test("While the system refuses to watch a link's new target, each inspection counts as a change of the store")
    func refusedWatch() async throws {
        let fixture = try Fixture()
        let (store, redirect) = try storeBehindLink(in: fixture.folder)
        let (changes, isRefused) = (Locked(0), Locked(false))
        let look = try WatchEnvironment.watch(store) {
            changes.withLock { $0 += 1 }
        } starting: { url in
            if isRefused.withLock(\.self) { throw POSIXError(.ENOSPC) }
            return try FileWatch(directory: url.deletingLastPathComponent().path, database: url.lastPathComponent) {}
        }
        try redirect()
        isRefused.withLock { $0 = true }
        for count in 1...2 {
            await look()
            #expect(changes.withLock(\.self) == count)
        }
        isRefused.withLock { $0 = false }
        for _ in 0..<2 { await look() }
        #expect(changes.withLock(\.self) == 3, "since the system allowed it, the store is watched")
    }
}
