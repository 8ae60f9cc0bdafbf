import FileSupport
import Foundation
import Operations
import RemoteStorage

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
    /// Returns a closure that looks for changes of which the system sends no event, as after a mount.
    var watchStore: @Sendable (_ onChange: @escaping @Sendable () -> Void) async throws -> @Sendable () -> Void
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
        let location = { @Sendable in (try? LocalStore(store))?.url ?? store.standardizedFileURL }
        watchStore = { onChange in
            let url = location()
            let watch = try FileWatch(
                directory: url.deletingLastPathComponent().path,
                database: url.lastPathComponent,
                onChange: onChange
            )
            return { watch.lookAgain() }
        }
        remoteChanges = { await backend.changes(in: document.recentSyncs) }
        isDiskFull = { FreeSpace(atPath: location().deletingLastPathComponent().path)?.isExhausted ?? false }
    }
}
