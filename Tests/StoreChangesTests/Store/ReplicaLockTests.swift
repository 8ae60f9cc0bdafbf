import FileSupport
import Foundation
import GRDB
import Testing

@testable import StoreChanges

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite("The lock of a replica", .timeLimit(.minutes(60)))
struct ReplicaLockTests {
    @Test(
        "A cancelled task doesn't wait for another process, neither to open a store nor to use it",
        .timeLimit(.minutes(1)),
        arguments: [false, true]
    )
    func cancellation(opensBefore: Bool) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "\(UUID())", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (url, replicaURL) = (folder.appending(path: "notes.sqlite"), folder.appending(path: "replica"))
        try DatabaseQueue(path: url.path).execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        @Sendable func openedStore() throws -> SynchronizedStore {
            let identity = SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: "laptop"))
            return try SynchronizedStore(storeAt: url, replicaAt: replicaURL, identity)
        }
        let lock = try OpenFile(path: replicaURL.path + ".lock", O_RDWR | O_CREAT)
        let cancelled = Task {
            let store = opensBefore ? try openedStore() : nil
            #expect(try lock.lock())
            withUnsafeCurrentTask { $0?.cancel() }
            _ = try (store ?? openedStore()).content()
        }
        await #expect(throws: CancellationError.self) { try await cancelled.value }
    }
}
