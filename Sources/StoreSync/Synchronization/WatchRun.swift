import Operations
import RemoteStorage

/// One iteration of a watch: does what its schedule says.
final class WatchRun {
    /// The maximum number of refusals by the storage that are retried: more attempts with a password that isn't valid any more
    /// could lock the user's account.
    private static let maximumRefusals = 7

    private let environment: WatchEnvironment
    private let policy: WatchPolicy
    private let signals = WatchSignals()
    private var schedule: WatchSchedule?
    /// The synchronization that runs.
    private var handle: OperationHandle<Synchronization>?
    /// This device's client, once it's known.
    private var client: RemoteIdentifier?
    /// The names in the last listing of the document's heads and times.
    private var heads: [String]?
    /// Looks for changes of the store of which the system sends no event; watches the store until it's released.
    private var lookAtStore: (@Sendable () async -> Void)?
    /// How often the storage has refused what it allowed before, since the last success.
    private var refusals = 0
    /// Warnings that the next synchronization tells.
    private var warnings: [String] = []
    private var remoteReader: Task<Void, Never>?
    private var hasEnded = false

    init(_ environment: WatchEnvironment, _ policy: WatchPolicy) {
        (self.environment, self.policy) = (environment, policy)
    }

    deinit {
        handle?.cancel()
        remoteReader?.cancel()
    }

    /// Returns the next event; `nil` at the end.
    func next() async throws -> StoreWatch.Event? {
        guard !hasEnded else { return nil }
        do {
            if let event = try await event() { return event }
        } catch {
            hasEnded = true
            throw error
        }
        hasEnded = true
        return nil
    }

    private func event() async throws -> StoreWatch.Event? {
        if let handle { return try await end(of: handle) }
        var schedule = await startedSchedule()
        defer { self.schedule = schedule }
        while !Task.isCancelled {
            for (source, changes) in signals.take() { schedule.noticed(changes, of: source) }
            switch schedule.step(at: environment.now()) {
            case .synchronize:
                // The system may allow the watch by now, because a limit was raised or another program has ended.
                if lookAtStore == nil, (try? await watchStore()) != nil { schedule.beganWatching(.store) }
                schedule.began()
                let handle = environment.synchronize()
                self.handle = handle
                return .began(handle)
            case .look:
                await lookAtStore?()
                do {
                    let isNews = try await look()
                    schedule.looked(isNews: isNews, at: environment.now(), random: environment.random())
                } catch is CancellationError {
                    return nil
                } catch {
                    return try failed(error, &schedule)
                }
            case .wait(let deadline, let isInterruptible):
                try? await wait(until: deadline, isInterruptible: isInterruptible)
            }
        }
        return nil
    }

    /// Starts to watch the store and the remote, before the first synchronization.
    private func startedSchedule() async -> WatchSchedule {
        if let schedule { return schedule }
        let (signals, environment) = (signals, environment)
        do {
            try await watchStore()
        } catch {
            let seconds = Int(min(policy.longestPoll / .seconds(1), 1e9).rounded(.up))
            warnings.append(
                """
                The system refuses to watch more files, so changes of the store are noticed within \(seconds) s. Close \
                programs that watch many files. On Linux, raise fs.inotify.max_user_watches and fs.inotify.max_user_instances.
                """
            )
        }
        let remoteChanges = await environment.remoteChanges()
        if let remoteChanges {
            remoteReader = Task {
                for await _ in remoteChanges { signals.post(.remote, at: environment.now()) }
            }
        }
        var watched: Set<WatchSchedule.Source> = []
        if lookAtStore != nil { watched.insert(.store) }
        if remoteChanges != nil { watched.insert(.remote) }
        return WatchSchedule(policy, watched: watched, at: environment.now())
    }

    private func watchStore() async throws {
        let (signals, environment) = (signals, environment)
        lookAtStore = try await environment.watchStore { signals.post(.store, at: environment.now()) }
    }

    private func end(of handle: OperationHandle<Synchronization>) async throws -> StoreWatch.Event? {
        let result: Result<Synchronization, any Error>
        do {
            result = .success(try await handle.structuredValue)
        } catch {
            result = .failure(error)
        }
        self.handle = nil
        await lookAtStore?()
        guard var schedule else { return nil }
        defer { self.schedule = schedule }
        switch result {
        case .success(var synchronized):
            (client, refusals) = (synchronized.client, 0)
            schedule.synchronized(
                isActive: !synchronized.applied.isEmpty || synchronized.publishedBytes > 0,
                isComplete: synchronized.isComplete,
                at: environment.now(),
                random: environment.random()
            )
            synchronized.warnings += warnings
            warnings = []
            return .synchronized(synchronized)
        case .failure(let error):
            return try failed(error, &schedule)
        }
    }

    private func failed(_ error: any Error, _ schedule: inout WatchSchedule) throws -> StoreWatch.Event {
        // The client is known after the first success.
        guard let error = error as? StoreSyncError,
            error.isRetriedByWatch(afterSuccess: client != nil, isDiskFull: environment.isDiskFull)
        else { throw error }
        if error.isRefusalByStorage { refusals += 1 }
        guard refusals <= Self.maximumRefusals else { throw error }
        let delay = schedule.failed(Self.sources(of: error.code), at: environment.now(), random: environment.random())
        return .failed(error, retryIn: delay)
    }

    /// Where a change may end a failure.
    private static func sources(of code: StoreSyncError.Code) -> Set<WatchSchedule.Source> {
        switch code {
        case .storeChanged, .storeNotFound: [.store]
        // A program uses the store, or another device is synchronizing the document for the first time.
        case .busy: [.store, .remote]
        default: [.remote]
        }
    }

    /// Returns whether other devices' heads have changed since the last listing, or this device's recent sync is gone.
    private func look() async throws -> Bool {
        let former = heads
        let names = try await environment.heads()
        heads = names
        return former.map(others) != others(names) || hasOwnRecentSync(in: former ?? []) && !hasOwnRecentSync(in: names)
    }

    /// Whether a listing has this device's recent sync, which a removal of the document or of this client removes.
    private func hasOwnRecentSync(in names: [String]) -> Bool {
        names.compactMap(DocumentHierarchy.client(ofRecentSyncNamed:)).contains { $0 == client }
    }

    private func others(_ names: [String]) -> Set<SyncHeadName> {
        Set(names.compactMap { SyncHeadName($0) }.filter { $0.client != client })
    }

    private func wait(until deadline: Duration, isInterruptible: Bool) async throws {
        let (signals, sleep) = (signals, environment.sleep)
        let delay = deadline - environment.now()
        guard isInterruptible else { return try await sleep(delay) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await sleep(delay) }
            group.addTask { try await signals.wait() }
            try await group.next()
            group.cancelAll()
        }
    }
}
