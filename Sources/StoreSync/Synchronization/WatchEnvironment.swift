import FileSupport
import Foundation
import Operations
import RemoteStorage
import ThreadSupport

/// What a watch needs of the world: a test injects its own.
struct WatchEnvironment: Sendable {
    /// The time since some moment.
    var now: @Sendable () -> Duration
    var sleep: @Sendable (Duration) async throws -> Void
    /// A number from 0 up to 1.
    var random: @Sendable () -> Double
    /// Starts a synchronization.
    var synchronize: @Sendable () -> OperationHandle<Synchronization>
    /// The names of all heads on the remote.
    var heads: @Sendable () async throws -> [String]
    /// Calls a closure when the store changes, until what is returned is released; throws if the system refuses to watch it.
    ///
    /// Returns a closure that looks for changes of which the system sends no event, as after a mount, or where a link leads
    /// elsewhere.
    var watchStore: @Sendable (_ onChange: @escaping @Sendable () -> Void) async throws -> @Sendable () async -> Void
    /// Signals when the heads may have changed; `nil` if the storage has no signals.
    var remoteChanges: @Sendable () async -> AsyncStream<Void>?
    /// Whether the disk that holds the store is full.
    var isDiskFull: @Sendable () -> Bool
}

extension WatchEnvironment {
    init(
        store: URL,
        document: DocumentHierarchy,
        backend: any RemoteBackend,
        supervisor: OperationSupervisor,
        synchronize: @escaping @Sendable () -> OperationHandle<Synchronization>
    ) {
        let clock = supervisor.clock
        now = { supervisor.now }
        sleep = { try await clock.sleep(for: $0) }
        random = { supervisor.random() }
        self.synchronize = synchronize
        heads = { try await translatingErrors { try await backend.synchronizationHooks.listSyncHeads(document) } }
        watchStore = { onChange in
            try Self.watch(store, onChange) { url in
                let directory = url.deletingLastPathComponent().path
                return try FileWatch(directory: directory, database: url.lastPathComponent, onChange: onChange)
            }
        }
        remoteChanges = { await backend.changes(in: document.recentSyncs) }
        isDiskFull = {
            FreeSpace(atPath: Self.location(of: store).deletingLastPathComponent().path)?.isExhausted ?? false
        }
    }

    /// Watches a store, and follows links on its path when the returned function is called.
    ///
    /// If the system refuses to watch a link's new target, each call reports a change and tries again.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - onChange: Called when a link leads to another store.
    ///   - start: Starts to watch a file.
    /// - Returns: A function that follows the links. The watch ends when it's released.
    /// - Throws: The first error of `start`.
    static func watch(
        _ store: URL,
        _ onChange: @escaping @Sendable () -> Void,
        starting start: @escaping @Sendable (URL) throws -> FileWatch
    ) throws -> @Sendable () async -> Void {
        let url = location(of: store)
        let watched = Locked((path: url.path, files: try start(url)))
        return {
            watched.withLock(\.files).lookAgain()
            let former = watched.withLock(\.path)
            // A link on the way may lead elsewhere by now. File systems of networks may block.
            let other = try? await runBlocking {
                store.path.canonicalPath.flatMap { $0 == former ? nil : ($0, try? start(URL(filePath: $0))) }
            }
            guard let (path, files) = other ?? nil else { return }
            if let files { watched.withLock { $0 = (path, files) } }
            onChange()
        }
    }

    private static func location(of store: URL) -> URL {
        (try? LocalStore(store))?.url ?? store.standardizedFileURL
    }
}
