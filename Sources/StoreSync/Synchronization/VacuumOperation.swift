import Foundation
public import Operations
public import RemoteStorage
import StoreChanges
import ThreadSupport

/// Shortens the log of a document whose devices merge records.
///
/// The operation synchronizes the store that this device synchronized last, and uploads it as a baseline: a device that
/// joins later begins with it, instead of reading every edit since the document's first store. The edits of this device
/// that the two newest baselines contain are removed from the remote, as soon as every client has seen them.
///
/// If it ends anywhere in between, nothing is lost, and the next one completes it.
public actor VacuumOperation: Operation {
    private let document: DocumentRegistration
    private let backend: any RemoteBackend
    private let state: StateDirectory

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - document: The registered document.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    public init(of document: DocumentRegistration, backend: any RemoteBackend, state: StateDirectory) {
        self.document = document
        self.backend = backend
        self.state = state
    }

    /// Shortens the log.
    ///
    /// - Throws: ``StoreSyncError``, among others `storeNotFound`; what ``SynchronizationOperation`` throws;
    ///   `CancellationError`.
    public func main(_ context: OperationContext) async throws -> Vacuum {
        try await translatingErrors {
            let key = document.application.key(backend, document.document)
            let memory = try await context.blocking { [state, document] in
                try state.synchronization(of: key, document.integrityKey)
            }
            let path = try path(of: memory?.lastStore)
            let synchronization = SynchronizationOperation(
                SynchronizationRequest(url: URL(filePath: path.text)),
                document: document,
                backend: backend,
                state: state,
                vacuums: true
            )
            let result = try await context.addChild(synchronization).value
            guard let vacuum = await synchronization.vacuum else { preconditionFailure("it ends with a vacuum") }
            return Vacuum(
                client: result.client,
                isBaselineWritten: vacuum.baseline != nil,
                baselineBytes: vacuum.baseline?.storedBytes ?? 0,
                removedFiles: vacuum.removed.count,
                removedBytes: vacuum.removed.reduce(Int64(0)) { $0.adding(size: $1.size) },
                keptFor: vacuum.keptFor,
                warnings: result.warnings
            )
        }
    }

    /// The path of this device's store.
    private func path(of store: SynchronizationMemory.LastStore?) throws -> LocalPath {
        let command = "storesync sync STORE --document \(document.document)"
        guard let store, !state.isGone(store.path) else {
            throw StoreSyncError(
                .storeNotFound,
                """
                This device has no store of \(document.document)\(store.map { " at \($0.path)" } ?? ""), and only a device \
                that synchronizes the document can shorten its log. Synchronize the store: \(command).
                """
            )
        }
        guard store.stateDirectory == state.path else {
            throw StoreSyncError(
                .storeNotFound,
                """
                The state directory was \(store.stateDirectory) when \(store.path) was synchronized, and is \(state.path) now. \
                If it was copied, that store is another device's. Synchronize this device's store first: \(command).
                """
            )
        }
        return store.path
    }
}

/// Ending a synchronization with a vacuum.
extension SynchronizationOperation {
    /// What a vacuum did.
    struct VacuumOutcome: Sendable {
        /// The baseline that was written; `nil` if the newest two have all there is.
        var baseline: WholeStoreUpload?
        /// The files that were removed.
        var removed: [RemoteItem]
        var keptFor: [RemoteIdentifier]
    }

    /// Writes a baseline if anything came since the newest one or if devices couldn't begin otherwise, and removes what is superfluous.
    ///
    /// A baseline doesn't count if a verification on this device has found it damaged. The next baseline of its client
    /// replaces it.
    ///
    /// If the baseline can't be written, because the storage is full, the removals come before the error.
    func vacuum(
        _ replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> VacuumOutcome {
        let sets = try await replica.using(context) { SyncVector.total(try $0.integratedSets().values.map(\.sequence)) }
        let remote = try await baselines(since: replica.origin)
        let there = remote.newest
        (memory.baselines, memory.acknowledged) = (there, nil)
        var (baseline, failure): (WholeStoreUpload?, (any Error)?) = (nil, nil)
        // Before the first edit, the document's first store is enough, unless it was lost.
        let isDue = sets > 0 ? there.count < 2 || there[0].total < sets : remote.undamaged.isEmpty
        // While edits are missing, the damaged upload may be the only one with them, and its owner may still restore it.
        if isDue || remote.isOwnDamageUnmended && memory.missing?.isEmpty ?? true {
            do {
                baseline = try await writeBaseline(of: replica, &memory, context)
            } catch let error where !(error is CancellationError) {
                failure = error
                // A head may be on the remote although its publication failed.
                memory = try await self.memory(since: replica.origin, context)
                (memory.baselines, memory.acknowledged) = (there, nil)
            }
        }
        let client = try RemoteIdentifier(memory.client)
        let former = try await restoreSegments(from: replica, memory, context)
        let damaged = try await replaceDamagedSegments(from: replica, &memory, context)
        // The head that names fewer files comes first.
        try await publish(from: replica, besides: memory.lastHead, &memory, context)
        let (named, last) = (Set(memory.segments.map(\.name)), memory.removed)
        await remove(damaged, of: memory)
        // Files of interrupted synchronizations are removed too, but none that a copy of this device may be about to name.
        let superfluous = former.filter { item in
            !named.contains(item.name) && SyncSegment(item.name).map { $0.last <= last } ?? false
        }
        try await superfluous.concurrentMap { [hooks, hierarchy] item in
            guard let segment = SyncSegment(item.name) else { return }
            try await hooks.removeSyncFile(at: hierarchy.syncSegment(segment, of: client))
        }
        let knowledge = try await replica.using(context) { try $0.knowledge() }
        let ofRemovedClients = try await removeFilesOfRemovedClients(memory, knowledge)
        try await removeUnreadableHeads(of: client, since: replica.origin, memory)
        if let failure { throw failure }
        let behind = LogPruning.behind(replica.identity.client, in: memory.baselines, knowledge)
        return VacuumOutcome(
            baseline: baseline,
            removed: superfluous + ofRemovedClients,
            keptFor: behind.compactMap { try? RemoteIdentifier($0.rawValue) }.sorted()
        )
    }

    /// Removes heads of this client that can't be read and that this device doesn't remember, as of a former document of this
    /// name.
    ///
    /// A copy of this device may be publishing them, so they stay while they may still be arriving.
    private func removeUnreadableHeads(
        of client: RemoteIdentifier,
        since origin: SyncOrigin,
        _ memory: SynchronizationMemory
    ) async throws {
        guard unreadableClients.contains(client), memory.missesOnlyLostEdits(at: state.now()) else { return }
        let unknown = try await hooks.listSyncHeads(hierarchy).compactMap { SyncHeadName($0) }.filter {
            $0.client == client && !memory.heads.contains($0.name)
        }
        try await catalog(since: origin).unreadableHeads(among: unknown).concurrentMap { [hooks, hierarchy] in
            try await hooks.removeSyncFile(at: hierarchy.syncHead($0))
        }
    }

    /// Removes the heads of removed clients, and then the files that the heads name, if no device needs them any more.
    private func removeFilesOfRemovedClients(
        _ memory: SynchronizationMemory,
        _ knowledge: LogKnowledge
    ) async throws -> [RemoteItem] {
        let clients = memory.removals.keys.map { ClientID(rawValue: $0) }.filter {
            LogPruning.isSuperfluous($0, for: ClientID(rawValue: memory.client), in: memory.baselines, knowledge)
        }
        guard !clients.isEmpty else { return [] }
        let heads = try await hooks.listSyncHeads(hierarchy).compactMap { SyncHeadName($0) }
        var removed: [RemoteItem] = []
        for client in clients.compactMap({ try? RemoteIdentifier($0.rawValue) }) {
            for head in heads where head.client == client {
                try await hooks.removeSyncFile(at: hierarchy.syncHead(head))
            }
            for item in try await hooks.listSyncSegments(of: client, hierarchy) {
                guard let segment = SyncSegment(item.name) else { continue }
                try await hooks.removeSyncFile(at: hierarchy.syncSegment(segment, of: client))
                removed.append(item)
            }
        }
        return removed
    }
}
