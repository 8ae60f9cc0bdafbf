import ContentDigests
import Foundation
import Operations
import RemoteStorage
import StoreChanges
import ThreadSupport

/// Writing and finding the stores with which devices begin.
extension SynchronizationOperation {
    /// The number of change sets since the newest baseline after which a client writes another, at the earliest.
    ///
    /// It differs among the clients that haven't written the newest one, so that they don't all upload the store at once.
    static func setsPerBaseline(of client: RemoteIdentifier, hasWrittenNewest: Bool) -> UInt64 {
        let setsPerBaseline = LogGrowth.setsPerBaseline
        guard !hasWrittenNewest else { return setsPerBaseline }
        let hash = client.rawValue.utf8.reduce(UInt64(0)) { ($0 &* 31 &+ UInt64($1)) % setsPerBaseline }
        return 2 * setsPerBaseline + hash
    }

    // MARK: Writing

    /// Uploads a baseline: the store as it is, with a checkpoint of its replica.
    ///
    /// - Parameters:
    ///   - replica: The replica.
    ///   - memory: What this device remembers; the baseline is noted there.
    ///   - context: The operation's context.
    /// - Returns: The upload.
    /// - Throws: ``StoreSyncError``.
    func writeBaseline(
        of replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> WholeStoreUpload {
        context.reportProgress(OperationProgress(fractionCompleted: 0.8, phase: "writing a baseline"))
        let folder = try await context.temporaryDirectory().appending(path: "checkpoint", directoryHint: .isDirectory)
        let store = folder.appending(path: WholeStoreFile.store.rawValue)
        let checkpoint = folder.appending(path: WholeStoreFile.appliedSyncChangeSets.rawValue)
        try? FileManager.default.removeItem(at: folder)
        try context.fileManager.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        let sets = try await replica.using(context) { try $0.makeCheckpoint(at: checkpoint, withStoreAt: store) }
        let vector = Dictionary(uniqueKeysWithValues: sets.map { ($0.rawValue, $1.sequence) })
        try await context.blocking { [state] in
            try SQLiteHeader.normalize(store)
            try AppliedSets.note(vector, in: checkpoint, at: state.now())
        }
        // Every set that a baseline contains is published: another device may need to undo it.
        if vector[memory.client] ?? 0 > memory.sequence ?? 0 {
            try await publish(from: replica, besides: memory.lastHead, &memory, context)
            guard vector[memory.client] ?? 0 <= memory.sequence ?? 0 else {
                throw StoreSyncError(.remoteUnavailable, Self.ownEditsWait)
            }
        }
        var request = WholeStoreUploadRequest(url: request.url, resolvesDivergence: true)
        request.baseline = BaselineContent(
            store: store,
            checkpoint: checkpoint,
            synchronized: SynchronizedContent(origin: replica.origin.identifier, vector: vector)
        )
        // The upload writes it, too, and may leave a part of it.
        memory.recorded = nil
        try await remember(memory, context)
        let upload = WholeStoreUploadOperation(request, document: document, backend: backend, state: state)
        let uploaded = try await context.addChild(upload).value
        guard let name = try await record(context)?.base else { return uploaded }
        memory.base = name
        memory.note([SyncBaseline(upload: name, vector: vector)])
        // The next head names it.
        memory.acknowledged = nil
        memory.failedBaseline = nil
        try await remember(memory, context)
        return uploaded
    }

    private static let ownEditsWait = """
        Edits of this device can't be published yet, because earlier ones of it have not arrived here. A baseline is written \
        after that.
        """

    /// Notes the clients that were removed: from then on nothing is kept for them, and later edits of theirs don't count.
    ///
    /// The next head says so. If such a device comes back, it continues as another client, and publishes these edits again.
    /// A set that any device may have integrated counts, so nothing is noted while edits are missing here, unless this device
    /// has long waited for them in vain.
    ///
    /// - Parameters:
    ///   - replica: The replica.
    ///   - memory: What this device remembers; the removals are noted there.
    ///   - context: The operation's context.
    /// - Returns: A warning for each client whose removal isn't noted yet.
    /// - Throws: ``StoreSyncError``.
    func noteRemovedClients(
        in replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [String] {
        let (knowledge, arrived) = try await replica.using(context) { (try $0.knowledge(), try $0.setsThatMayCount()) }
        // The head of a client that was never read may be a former document's.
        let known = Set(knowledge.heads.keys).union(unreadableClients.map { ClientID(rawValue: $0.rawValue) })
        let clients = known.filter { knowledge.removals[$0] == nil && $0 != replica.identity.client }
        let removed = try await RemovedClients.read(
            of: Set(clients.compactMap { try? RemoteIdentifier($0.rawValue) }),
            document,
            backend.documentRegistrationHooks
        )
        guard !removed.clients.isEmpty else { return [] }
        guard memory.missesOnlyLostEdits(at: state.now()) else {
            return removed.clients.sorted().map {
                """
                Edits are missing on this device, so files are still kept for client \($0), which was removed. Run storesync \
                vacuum again when they have arrived, or after a day.
                """
            }
        }
        var news = LogNews()
        let gone = Set(removed.clients.map { ClientID(rawValue: $0.rawValue) })
        let heads = knowledge.heads.values.filter { !gone.contains($0.client) && knowledge.removals[$0.client] == nil }
        for client in gone {
            let seen = heads.compactMap { $0.seen[client]?.sequence } + [arrived[client]?.sequence ?? 0]
            news.removals[client] = seen.max()
            memory.removals[client.rawValue] = news.removals[client]
        }
        // If this device dies now, its next synchronization tells the others, and its replica.
        memory.acknowledged = nil
        try await remember(memory, context)
        try await replica.using(context) { [news] in try $0.remember(news) }
        return []
    }

    /// Uploads a baseline if many change sets came since the newest one, as ``LogGrowth`` says.
    ///
    /// The device that wrote the newest one does, because it sends only what changed; others do if it doesn't. A device that
    /// has long waited for edits does, too: others may wait for edits that only this one still has.
    ///
    /// Another device may have written a baseline that no head names yet, so the remote is asked before the store is uploaded.
    ///
    /// - Parameters:
    ///   - replica: The replica.
    ///   - setCount: How many sets of all clients it has integrated.
    ///   - memory: What this device remembers; the baseline is noted there.
    ///   - context: The operation's context.
    /// - Returns: Warnings; a baseline that can't be written is no failure.
    /// - Throws: ``StoreSyncError``; `CancellationError`.
    func writeBaselineIfDue(
        of replica: SynchronizedReplica,
        setCount: UInt64,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [String] {
        let size = try await context.blocking { [request] in try LocalStore(request.url).byteCount }
        func isDue(_ memory: SynchronizationMemory, _ log: (sets: UInt64, bytes: Int64)) -> Bool {
            let newest = memory.baselines.first
            let writer = (newest?.upload ?? replica.origin.baseline).client
            let patience = Self.setsPerBaseline(of: client, hasWrittenNewest: writer == client)
            let newSets = setCount - min(setCount, newest?.total ?? 0)
            let growth = LogGrowth(since: (newSets, memory.bytesSinceBaseline), in: log, besides: size)
            let isMissed = hasTriedBaselines && newSets > 0
            // A missed baseline is due once a day at most, so no further wait applies to it.
            return growth.isDue(for: patience) && !memory.waitsAfterFailedBaseline(at: state.now()) || isMissed
        }
        // The log is read only if the baseline would be due without it.
        guard isDue(memory, (0, 0)) else { return [] }
        let log = try await replica.using(context) { try $0.logSize() }
        guard isDue(memory, log) else { return [] }
        let failure = "The document's log of edits couldn't be shortened; the next try is in an hour or later."
        return try await warning(failure) {
            do {
                memory.note(try await baselines(since: replica.origin).newest)
                try await remember(memory, context)
                guard isDue(memory, log) else { return [] }
                let warnings = try await noteRemovedClients(in: replica, &memory, context)
                let written = try await writeBaseline(of: replica, &memory, context)
                return try await warnings + written.warnings + announceBaseline(of: replica, &memory, context)
            } catch {
                // A head may be on the remote although its publication failed.
                memory = try await self.memory(since: replica.origin, context)
                if !(error is CancellationError) {
                    memory.noteFailedBaseline(at: state.now())
                    try await remember(memory, context)
                }
                throw error
            }
        }
    }

    /// Publishes a head that names the baseline that was just written, so that other devices write none.
    ///
    /// - Returns: A warning if that failed: the next synchronization publishes the head.
    private func announceBaseline(
        of replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [String] {
        let failure = "A store with all edits was uploaded, and the next synchronization tells other devices of it."
        return try await warning(failure) {
            do {
                try await publish(from: replica, besides: memory.lastHead, &memory, context)
                return []
            } catch {
                // A head may be on the remote although its publication failed.
                memory = try await self.memory(since: replica.origin, context)
                throw error
            }
        }
    }

    // MARK: Finding

    /// The baselines on the remote, the newest first; the document's first store is the last.
    struct Baselines: Sendable {
        var all: [SyncBaseline]
        /// Those whose files have all arrived, as far as listings of their folders show it.
        var complete: [SyncBaseline]
        /// The complete ones of which this device knows no damage, by a verification or by the tags of what it has sent.
        var undamaged: [SyncBaseline]
        /// Whether this client has published no undamaged baseline since an upload that a verification here has found damaged.
        var isOwnDamageUnmended: Bool
        /// The digests of their stores.
        var contents: [UploadName: ContentRoot]
        /// The uploads that aren't baselines.
        var pushes: Set<UploadName>

        /// The newest two that contain change sets and that aren't known to be damaged.
        var newest: [SyncBaseline] { SyncBaseline.newest(of: undamaged.filter { $0.total > 0 }) }
    }

    /// Finds the baselines on the remote.
    func baselines(since origin: SyncOrigin) async throws -> Baselines {
        let hooks = backend.wholeStoreDownloadHooks
        let (catalog, stores) = (UploadCatalog(hooks, document), try await PublishedStores.list(hooks, hierarchy))
        async let listed = catalog.files(of: stores.considered)
        let manifests = try await catalog.manifests(of: stores.considered).manifests
        let lists = try await listed
        let trust = try await runBlocking(on: nil) { [state, key] in try state.trust(in: stores.considered, of: key) }
        var contents: [UploadName: ContentRoot] = [:]
        let found = manifests.compactMap { manifest -> (baseline: SyncBaseline, isComplete: Bool, isUndamaged: Bool)? in
            let isFirst = manifest.name == origin.baseline
            guard isFirst || manifest.synchronized?.origin == origin.identifier else { return nil }
            let vector = isFirst ? [:] : manifest.synchronized?.vector ?? [:]
            contents[manifest.name] = manifest.store.contentRoot
            let chain = try? StoreChain(manifest, among: manifests)
            return (
                SyncBaseline(upload: manifest.name, vector: vector),
                isComplete: chain?.isComplete(lists) ?? false,
                isUndamaged: chain?.isComplete(lists, trust) ?? false
            )
        }.sorted { ($0.baseline.total, $0.baseline.upload) > ($1.baseline.total, $1.baseline.upload) }
        let undamaged = found.filter(\.isUndamaged).map(\.baseline)
        return Baselines(
            all: found.map(\.baseline),
            complete: found.filter(\.isComplete).map(\.baseline),
            undamaged: undamaged,
            isOwnDamageUnmended: trust.damaged.intersection(trust.tags.keys).contains { damaged in
                damaged.client == client
                    && !undamaged.contains { $0.upload.client == client && $0.upload.generation > damaged.generation }
            },
            contents: contents,
            pushes: Set(manifests.filter { $0.synchronized == nil && $0.name != origin.baseline }.map(\.name))
        )
    }

    /// The codes of errors that concern a single baseline, so that another one may be readable.
    static let codesOfOneBaseline: Set<StoreSyncError.Code> = [
        .corrupt, .tampered, .orphan, .noUploadedStore, .unsupportedFormat,
    ]

    /// Downloads the first of several baselines that can be read, and warns of each damaged one before it.
    ///
    /// The log has the edits that an older baseline lacks, as long as two baselines can be read.
    ///
    /// - Parameters:
    ///   - baselines: The baselines, the newest first.
    ///   - body: Downloads a baseline.
    /// - Returns: What `body` returns.
    /// - Throws: ``StoreSyncError``, of the newest baseline if none can be read; what else `body` throws.
    func withFirst<Value>(
        readableOf baselines: [SyncBaseline],
        _ body: (SyncBaseline) async throws -> Value
    ) async throws -> Value {
        var errors: [StoreSyncError] = []
        for baseline in baselines {
            do {
                let value = try await body(baseline)
                asideWarnings += errors.map { "An older store was used. \($0.message)" }
                return value
            } catch let error as StoreSyncError where Self.codesOfOneBaseline.contains(error.code) {
                errors.append(error)
            }
        }
        throw errors.first
            ?? StoreSyncError(
                .noUploadedStore,
                """
                No store with which a device can begin with \(document.document) is on the remote. It is still arriving, or \
                was lost. If it stays missing, run storesync vacuum on a device that has the document.
                """
            )
    }

    /// Downloads a baseline to the temporary directory.
    func beginning(
        with baseline: SyncBaseline,
        _ origin: SyncOrigin,
        _ context: OperationContext
    ) async throws -> SynchronizedStore.Beginning {
        let copy = try await context.temporaryDirectory().appending(path: "baseline.sqlite")
        try? FileManager.default.removeItem(at: copy)
        try await download(baseline.upload, to: copy, context)
        let checkpoint = try await checkpoint(of: baseline, origin, downloadedTo: copy, context)
        try await context.blocking { [state, key] in
            let path = try LocalStore(copy).path
            try state.forgetStore(at: path, document: key)
            state.appliedSets(for: path, in: key).remove()
        }
        return SynchronizedStore.Beginning(store: copy, checkpoint: checkpoint)
    }

    /// Returns the checkpoint that came with a baseline; `nil` for the document's first store.
    func checkpoint(
        of baseline: SyncBaseline,
        _ origin: SyncOrigin,
        downloadedTo url: URL,
        _ context: OperationContext
    ) async throws -> URL? {
        guard baseline.upload != origin.baseline else { return nil }
        let copy = try await context.temporaryDirectory().appending(path: "checkpoint.sqlite")
        try await context.blocking { [state, key] in
            try? FileManager.default.removeItem(at: copy)
            try state.appliedSets(for: LocalStore(url).path, in: key).copy(.appliedSyncChangeSets, to: copy)
        }
        return copy
    }
}
