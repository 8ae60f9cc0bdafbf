import Foundation
public import Operations
public import RemoteStorage
import StoreChanges

/// Synchronizes a store with a document, record by record: edits of several devices at once are merged.
///
/// The operation fetches what other devices published, merges it with what the user changed, writes the result into the
/// store in one transaction, and publishes this device's edits. If it ends anywhere in between, the next one completes
/// it.
///
/// The first device uploads its store, with which all devices begin. Another device downloads that store if it has none.
public actor SynchronizationOperation: Operation {
    let request: SynchronizationRequest
    let document: DocumentRegistration
    let backend: any RemoteBackend
    let hooks: any SynchronizationHooks
    let state: StateDirectory
    /// How the whole store travelled.
    var transfer: Synchronization.Transfer?
    /// How many edits were published, as the present client and as a former one.
    var publishedChanges = 0
    /// Whether the log is shortened afterwards.
    private let vacuums: Bool
    /// What shortening the log did.
    private(set) var vacuum: VacuumOutcome?
    /// Whether edits had waited so long that baselines were tried for them.
    var hasTriedBaselines = false
    /// The clients whose files can't be read.
    var unreadableClients: Set<RemoteIdentifier> = []
    /// Warnings about stores that were set aside, a replica that couldn't be read, and a file of the origin that was missing.
    var asideWarnings: [String] = []
    /// The bytes of the file of the document's origin.
    var originFile: Data?
    /// What the store held that was set aside or downloaded last: the same content isn't set aside again.
    var kept: AsideStore.Content?

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: The store.
    ///   - document: The registered document that the store belongs to.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    public init(
        _ request: SynchronizationRequest,
        document: DocumentRegistration,
        backend: any RemoteBackend,
        state: StateDirectory
    ) {
        self.init(request, document: document, backend: backend, state: state, vacuums: false)
    }

    init(
        _ request: SynchronizationRequest,
        document: DocumentRegistration,
        backend: any RemoteBackend,
        state: StateDirectory,
        vacuums: Bool
    ) {
        self.vacuums = vacuums
        self.request = request
        self.document = document
        self.backend = backend
        hooks = backend.synchronizationHooks
        self.state = state
    }

    var hierarchy: DocumentHierarchy { document.hierarchy }
    var seal: ApplicationSeal { document.application.seal }
    var client: RemoteIdentifier { document.application.client }
    var key: DocumentKey { document.application.key(backend, document.document) }

    /// Synchronizes the store.
    ///
    /// - Throws: ``StoreSyncError``, among others `storeReplaced`, `unrelatedStore`, `diverged`, `noUploadedStore`,
    ///   `documentSynchronizes`, `rolledBack`, `identityTwice`, `unsupportedStorage`, `remoteUnavailable` and `busy`;
    ///   `CancellationError`.
    public func main(_ context: OperationContext) async throws -> Synchronization {
        try await translatingErrors {
            try request.checkApp()
            try await backend.capabilities().requireExclusiveCreate(at: backend.identity)
            let lock = try await state.lock(.synchronization(key), .exclusive, for: context)
            defer { lock.release() }
            if request.isPreview { return try await preview(context) }
            // At once with the origin: a synchronization without news takes one round trip.
            async let listing = hooks.listSyncHeads(hierarchy)
            let origin = try await origin(context)
            let replica = try await replica(since: origin, context)
            if request.rebuildsReplica {
                var memory = try await memory(since: origin, context)
                try await rebuild(replica, &memory, context)
            }
            do {
                return try await exchange(with: replica, listing: listing, context)
            } catch let error as StoreSyncError where error.code == .storeReplaced {
                guard let side = request.takenSide else { throw error }
                // A replica from a backup may lack sets of others that this device remembers.
                var memory = try await memory(since: origin, context)
                memory.readHeadsAgain()
                try await remember(memory, context)
                return try await exchange(with: replica, taking: side, context)
            }
        }
    }

    /// Fetches, merges, writes and publishes.
    ///
    /// - Parameters:
    ///   - replica: The replica.
    ///   - listing: The heads that the remote has listed; `nil` to list them.
    ///   - side: What counts if the store isn't the replica's.
    ///   - context: The operation's context.
    /// - Returns: What happened.
    /// - Throws: ``StoreSyncError``.
    private func exchange(
        with replica: SynchronizedReplica,
        listing: [String]? = nil,
        taking side: TakenSide? = nil,
        _ context: OperationContext
    ) async throws -> Synchronization {
        var memory = try await memory(since: replica.origin, context)
        try await continueAsRegisteredClient(replica, &memory, context)
        // A replica that was put back from a backup may be a former client's, too.
        try await replica.using(context) { try $0.adopt() }
        let isKnown = memory.sequence != nil
        // Other devices have to know of a new client first: from then on they forget nothing that this device hasn't seen.
        if !isKnown { try await publish(from: replica, besides: [], &memory, context) }
        context.reportProgress(OperationProgress(fractionCompleted: 0.2, phase: "fetching"))
        let news = try await fetch(for: replica, listing: isKnown ? listing : nil, &memory, context)
        memory.note(news)
        // A synchronization that fails doesn't record its time.
        let isFirst = memory.recorded == nil
        context.reportProgress(OperationProgress(fractionCompleted: 0.5, phase: "merging"))
        let merged = try await mergeAsRegisteredClient(news, into: replica, taking: side, context)
        let missing = (merged.isWaiting ? merged.waiting.map(\.rawValue) : []) + news.warnings
        memory.noteMissing(missing, at: state.now())
        try await note(merged, news, in: replica, &memory, context)
        // Before this device publishes: its head may be too large until it gives up what was kept for removed clients.
        var warnings = vacuums ? try await noteRemovedClients(in: replica, &memory, context) : []
        context.reportProgress(OperationProgress(fractionCompleted: 0.7, phase: "publishing"))
        var published = try await publish(from: replica, besides: news.own, &memory, context)
        if vacuums {
            vacuum = try await vacuum(replica, &memory, context)
        } else {
            warnings = try await writeBaselineIfDue(of: replica, setCount: merged.setCount, &memory, context)
        }
        warnings += try await report(merged, of: replica, isFirst: isFirst, &memory, context)
        published.changes = publishedChanges
        var result = synchronization(merged, news, published, warnings: warnings)
        result.isComplete = missing.isEmpty
        return result
    }

    /// Remembers what was merged, and to which document the store belongs.
    private func note(
        _ merged: Merged,
        _ news: SyncCatalog.News,
        in replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws {
        unreadableClients = news.unreadable
        // A file that was never a head names no edits for which other devices wait, and may never go away.
        if !merged.isWaiting, news.incomplete.isEmpty, !news.hasSetsFromBaselines { hasTriedBaselines = false }
        memory.lastStore = .init(path: LocalPath(request.url.path), stateDirectory: state.path)
        try await adoptFiles(of: news.heads, replica, &memory, context)
        try await remember(memory, context)
        try await context.blocking { [state, key, request, document] in
            // A client that was removed and came back has merged its store, and so has one whose document was created again.
            try state.keepStore(
                at: LocalStore(request.url).path,
                document: key,
                integrityKey: document.integrityKey
            )
        }
    }

    /// Records when this client synchronized, and returns what the user is told once.
    ///
    /// - Parameters:
    ///   - merged: What merging did.
    ///   - replica: The replica.
    ///   - isFirst: Whether no synchronization of this client has recorded its time.
    ///   - memory: What this device remembers.
    ///   - context: The operation's context.
    /// - Returns: Warnings, in full sentences.
    /// - Throws: ``StoreSyncError``.
    private func report(
        _ merged: Merged,
        of replica: SynchronizedReplica,
        isFirst: Bool,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [String] {
        // Before the time is recorded: if this fails, the next synchronization is still the first one.
        let others = isFirst ? try await warningsOfOtherDocuments(than: replica, context) : []
        var warnings = try await recordSync(of: replica, &memory, context) + others
        if isFirst, !merged.unsuitableTables.isEmpty {
            warnings.append(Self.warning(ofTables: merged.unsuitableTables))
        }
        if let names = merged.addedAgain {
            try await replica.using(context) { try $0.forgetNamesAddedAgain() }
            warnings.append(Self.warning(ofNamesAddedAgain: names))
        }
        return warnings
    }

    /// Records on the remote when this client synchronized, if the time there is old: lists show it.
    ///
    /// As often, it looks whether the storage has lost any of this client's files: other devices wait for their edits.
    private func recordSync(
        of replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [String] {
        let now = state.now()
        guard memory.isRecordOutdated(at: now) else { return [] }
        async let restoring = restoreLostSegments(from: replica, memory, context)
        async let recording = document.recordSync(of: client, at: now, backend.recentSyncHooks)
        let warnings = try await restoring + recording
        guard warnings.isEmpty else { return warnings }
        memory.recorded = now
        try await remember(memory, context)
        return []
    }

    /// Creates this client's files again that the storage has lost, and returns a warning if that failed.
    ///
    /// A vacuum has done it already.
    private func restoreLostSegments(
        from replica: SynchronizedReplica,
        _ memory: SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [String] {
        guard !vacuums, !memory.segments.isEmpty else { return [] }
        return try await warning("What the storage may have lost of this device's edits wasn't uploaded again.") {
            try await restoreSegments(from: replica, memory, context)
            return []
        }
    }

    func synchronization(
        _ merged: Merged,
        _ news: SyncCatalog.News,
        _ published: Published,
        warnings: [String]
    ) -> Synchronization {
        Synchronization(
            client: client,
            sequence: published.sequence,
            transfer: transfer,
            applied: merged.applied,
            publishedChanges: published.changes,
            publishedBytes: published.bytes,
            conflicts: merged.conflicts,
            waitingFor: news.incomplete.union(merged.waiting.compactMap { try? RemoteIdentifier($0.rawValue) })
                .sorted(),
            warnings: document.allWarnings + asideWarnings + merged.warnings + news.warnings + warnings
        )
    }

    private static func warning(ofNamesAddedAgain names: String) -> String {
        """
        An update of the app has added again what an earlier one had removed: \(names). Edits made in between may be on \
        other devices only. If the stores differ there once all devices are updated, synchronize with --rebuild.
        """
    }

    private static func warning(ofTables names: [String]) -> String {
        """
        Edits of these tables stay on their device, since they can't synchronize as they are defined: \
        \(names.joined(separator: ", ")). Run storesync check for the reasons.
        """
    }

    // MARK: Memory

    func memory(since origin: SyncOrigin, _ context: OperationContext) async throws -> SynchronizationMemory {
        let memory = try await context.blocking { [state, key, document] in
            try state.synchronization(of: key, document.integrityKey)
        }
        // What was remembered of another origin says nothing about this one.
        var current = SynchronizationMemory(origin: origin.identifier, client: client)
        if let memory, memory.origin == origin.identifier { current = memory }
        if let originFile { current.originFile = originFile }
        return current
    }

    func remember(_ memory: SynchronizationMemory, _ context: OperationContext) async throws {
        try await context.blocking { [state, key, document] in
            try state.setSynchronization(memory, of: key, document.integrityKey)
        }
    }
}
