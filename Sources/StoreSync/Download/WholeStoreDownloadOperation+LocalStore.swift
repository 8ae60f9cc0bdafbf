import ContentDigests
import Foundation
import Operations

/// Checks before the replacement: what the local store would lose, and what the remote has lost.
extension WholeStoreDownloadOperation {
    /// The state of the local store, as far as it decides whether the store may be replaced.
    struct LocalState: Sendable {
        /// The store's content; `nil` if there is none, or if it can't be read.
        var content: LocalContent?
        var expectation: StoreReplacement.Expectation
        /// Whether it has nothing of the document's uploads, as far as this device and the remote know.
        var isUnrelated = false
    }

    /// Returns the store to download.
    ///
    /// - Throws: ``StoreSyncError/Code/rolledBack`` if there is none although this device has seen uploads that are missing.
    func source(of choice: inout StoreChoice, _ memory: RollbackMemory) async throws -> StoreSource {
        do {
            return try await choice.source()
        } catch let error as StoreSyncError where error.code == .noUploadedStore {
            let published = choice.published
            guard let newest = memory.missing(from: published.names, published.manifests).first else { throw error }
            throw StoreSyncError(
                .rolledBack,
                """
                \(newest.atStart) of \(document.document) is missing on the remote, and this device has seen it. \
                \(Lineage.reasons(forMissing: newest, among: published.manifests)) Pull again later; if it is lost, restore \
                the remote from a backup, or push with --whole from a device that has the store.
                """
            )
        }
    }

    /// Refuses a store if an upload is missing that this device knows or that other devices have seen.
    ///
    /// Returns the missing uploads if the user accepts that.
    func refuseRollback(
        _ source: StoreSource,
        _ choice: StoreChoice,
        _ memory: RollbackMemory
    ) throws -> [UploadName] {
        let missing = memory.missing(from: Set(choice.manifests.map(\.name)), choice.manifests)
        let witnessed = source.manifest.map { choice.witnessed(beside: $0) } ?? []
        // A generation that the user names is accepted as it is, and this device's memory stays.
        guard request.upload?.generation == nil else { return [] }
        guard let newest = (missing + witnessed).max(), !request.acceptsRollback else { return missing }
        let offered = source.manifest.map { "\($0.name)" } ?? "a store of TICoreDataSync"
        throw StoreSyncError(
            .rolledBack,
            """
            The remote offers \(offered), but \(missing.isEmpty ? "another device has" : "this device has") seen \
            \(newest), which is missing now. \(Lineage.reasons(forMissing: newest, among: choice.manifests)) Pull again \
            later, or with --accept-rollback if you give up the missing upload.
            """
        )
    }

    /// Determines whether replacing the local store would lose data.
    func localState(
        of plan: DownloadPlan,
        _ record: StoreRecord?,
        _ context: OperationContext
    ) async throws -> LocalState {
        let (store, source) = (plan.store, plan.source)
        guard try await context.blocking({ try store.exists }) else {
            let expectation: StoreReplacement.Expectation = request.overwritesLocalChanges ? .anything : .absent
            return LocalState(content: nil, expectation: expectation, isUnrelated: record?.contentRoot == nil)
        }
        let copy = try await context.temporaryDirectory().appending(path: "local")
        do {
            let content = try await content(of: plan, copyingTo: copy, context)
            let root = content.root
            let record = try await context.blocking { [state] in
                try record.map { try state.settlePull(of: $0, contentRoot: root, file: store.file) }
            }
            let base = try await base(of: root, record, plan.choice, context)
            if request.overwritesLocalChanges {
                let isUnrelated = base == nil && record?.contentRoot == nil
                return LocalState(content: content, expectation: .anything, isUnrelated: isUnrelated)
            }
            if root == source.contentRoot {
                return LocalState(content: content, expectation: .unchanged(acceptable: [root]))
            }
            guard let base else { throw localChanges(store, record) }
            try await refuseLoss(of: base, plan)
            let acceptable = Set([root, source.contentRoot].compactMap { $0 })
            return LocalState(content: content, expectation: .unchanged(acceptable: acceptable))
        } catch let error as StoreSyncError where error.code == .corrupt || error.code == .unsupportedFormat {
            // A store that can't be read can't be compared, so it's replaced only if the user gives it up.
            guard request.overwritesLocalChanges else { throw error }
            return LocalState(content: nil, expectation: .anything, isUnrelated: record?.contentRoot == nil)
        }
    }

    /// What an unchanged store equals.
    private enum Base {
        case upload(UploadName)
        /// A store that TICoreDataSync uploaded, or one whose manifest the storage hid: no upload includes it.
        case storeWithoutManifest
        /// A store of a document that was deleted and created again, which equals no upload of the present one.
        case formerDocument
    }

    /// Returns what a local store with this digest equals, by this device's memory or by the remote; `nil` if it was changed.
    private func base(
        of root: ContentRoot,
        _ record: StoreRecord?,
        _ choice: StoreChoice,
        _ context: OperationContext
    ) async throws -> Base? {
        let records = try await context.blocking { [state, key] in try state.stores(of: key) }
        let known = ([record].compactMap(\.self) + records).map { $0.settled(for: root.description) }
        // A changed store that equals an upload which it contains was edited back to it.
        let contained = record.map { $0.contentRoot == root.description ? [] : $0.contained } ?? []
        let equalStores = known.filter { store in
            store.contentRoot == root.description && store.base.map { !contained.contains($0) } ?? true
        }
        if let store = equalStores.first(where: { $0.integrityKey == document.integrityKey }) {
            return store.base.map(Base.upload) ?? .storeWithoutManifest
        }
        let equal = choice.manifests.filter { $0.store.contentRoot == root && !contained.contains($0.name) }
        if let upload = Lineage.heads(of: equal).last { return .upload(upload.name) }
        return equalStores.isEmpty ? nil : .formerDocument
    }

    /// Refuses to replace a store that no complete upload of this document has.
    private func refuseLoss(of base: Base, _ plan: DownloadPlan) async throws {
        let manifest = plan.source.manifest
        switch base {
        case .formerDocument:
            // The former document's uploads are gone, and no other store may have their edits.
            throw ofFormerDocument(plan.store)
        case .storeWithoutManifest:
            // TICoreDataSync itself only knows that its newest store replaces all others.
            guard let manifest else { return }
            throw StoreSyncError(
                .localChanges,
                """
                \(plan.store.path) was pulled from a client whose uploads have no manifest, and \(manifest.name) doesn't \
                include it. Push it with --resolves if it is to replace the stores on the remote, or pull with \
                --overwrite to lose it.
                """
            )
        case .upload(let base):
            guard !request.acceptsRollback, let manifest, manifest.name != base, !manifest.includes.contains(base),
                try await !plan.choice.isComplete(base)
            else { return }
            throw StoreSyncError(
                .localChanges,
                """
                \(plan.store.path) is \(base), which is missing on the remote, and \(manifest.name) doesn't include it. \
                Push it first, or pull with --overwrite to lose it.
                """
            )
        }
    }

    /// Reads the local store; a copy is kept if a delta can be applied to it.
    private func content(
        of plan: DownloadPlan,
        copyingTo copy: URL,
        _ context: OperationContext
    ) async throws -> LocalContent {
        let taken = try await context.blocking {
            try TakenStore.take(plan.store, holding: true, copyingTo: copy)
        }
        do {
            let executor = context.blockingExecutor
            let root = try await taken.limitingHold(by: context.clock, on: executor) {
                try await taken.contentRoot(on: executor)
            }
            if case .copied(let snapshot) = taken, plan.source.chain?.continuing(from: root) != nil {
                return LocalContent(root: root, copy: snapshot.url)
            }
            try await taken.release(having: root, on: executor)
            return LocalContent(root: root)
        } catch {
            await taken.discard(on: context.blockingExecutor)
            throw error
        }
    }

    private func localChanges(_ store: LocalStore, _ record: StoreRecord?) -> StoreSyncError {
        // The synchronization has just found that the store is unchanged.
        if request.isBaseline { return .changedMeanwhile(store) }
        if let record, record.mustReplace || record.integrityKey != document.integrityKey {
            return ofFormerDocument(store)
        }
        return StoreSyncError(
            .localChanges,
            record != nil
                ? "\(store.path) was changed since it was last pushed or pulled. Push it first, or pull with --overwrite to lose these changes."
                : "\(store.path) was never synchronized with this document and would be lost. Push it, move it away, or pull with --overwrite."
        )
    }

    private func ofFormerDocument(_ store: LocalStore) -> StoreSyncError {
        StoreSyncError(
            .localChanges,
            """
            \(store.path) was last synchronized before the application or the document was created again, or this client \
            was removed, and may have changed since. If it may hold edits that you need, copy it to another place. Then \
            pull with --overwrite.
            """
        )
    }
}
