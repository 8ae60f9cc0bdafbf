import Foundation
import Logging
import Operations
import RemoteStorage
import SyncCryptography

/// The uploading client, the store's lineage, and the comparison of the remote with this device's memory.
extension WholeStoreUploadOperation {
    // MARK: The client

    /// Returns this client, or a new one if another device has published under its identifier.
    func client(_ published: PublishedStores, _ context: OperationContext) async throws -> RemoteIdentifier {
        let client = document.application.client
        let own = published.manifests.filter { $0.name.client == client }
        let known = try await context.blocking { [state, key] in
            try state.adoptInterruptedUploads(own, document: key)
            return try state.uploads(for: key, client: client)
        }
        let isAlone = own.allSatisfy { manifest in
            known.contains { $0.name == manifest.name && manifest.hasContent(of: $0) }
        }
        if isAlone { return client }
        context.logger.notice("a copy of this device uses its client identifier, too: continuing as a new client")
        return try await newClient(after: client, context)
    }

    private func newClient(
        after client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> RemoteIdentifier {
        let application = document.application
        let registration = backend.applicationRegistrationHooks
        let path = application.hierarchy.deviceInfo(client)
        let former = try await registration.fetchDeviceInfo(of: client, application.hierarchy)
            .flatMap { try? DeviceInfo(seal.open($0, as: .deviceInfo(client), at: path), at: path) }
        let new = try await context.blocking { [state, key] in
            let lock = try state.lock(.application(key.application), .exclusive)
            defer { lock.release() }
            // A push of another document may have replaced the identifier a moment before.
            if let other = try state.peekClientIdentifier(for: key.application), other != client.rawValue {
                return try RemoteIdentifier(other)
            }
            return try RemoteIdentifier(state.replaceClientIdentifier(for: key.application))
        }
        let info = DeviceInfo(
            client: new.rawValue,
            description: application.clientDescription,
            userInfo: former?.userInfo ?? [:]
        )
        let sealed = seal.seal(info.xml, as: .deviceInfo(new))
        try await registration.createClientDeviceDirectory(new, application.hierarchy)
        try await registration.saveDeviceInfo(sealed, of: new, application.hierarchy)
        try await backend.documentRegistrationHooks.createClientDirectories(new, hierarchy)
        return new
    }

    /// Refuses to push if an upload is missing that this device knows, or that the writer of a head saw, unless the
    /// user pushes a whole copy.
    ///
    /// Returns the missing uploads that this device knows. An upload whose manifest exists and doesn't open is damaged, not missing.
    func refuseRollback(_ published: PublishedStores, _ context: OperationContext) async throws -> [UploadName] {
        let memory = try await context.blocking { [state, key, document] in
            try state.rollbackMemory(for: key, document.integrityKey)
        }
        let missing = memory.missing(from: published.names, published.manifests)
        let witnessed = Lineage.witnessed(by: published.manifests)
        guard let newest = witnessed.union(missing).max(), !request.isWhole else { return missing }
        throw StoreSyncError(
            .rolledBack,
            """
            \(newest) of \(document.document) is missing on the remote, and no other upload includes it. It is still \
            arriving, or the storage was put back to an older state. Nothing was published. Push again later, or with \
            --whole if it is lost.
            """
        )
    }

    // MARK: The store

    /// Returns this device's record of the store, and the store's digests if there is anything to compare them with.
    ///
    /// - Throws: ``StoreSyncError/Code/unrelatedStore`` if the store descends from no upload of a document that has some.
    func record(
        of store: LocalStore,
        _ taken: TakenStore,
        since former: BlockDigests?,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> (StoreRecord, ContentSummary?) {
        let records = try await context.blocking { [state, key] in try state.stores(of: key) }
        let own = records.first { $0.path == store.path }
        var new = StoreRecord(path: store.path, document: key, integrityKey: document.integrityKey)
        new.file = store.file
        // The manifest names the digest of a file that isn't sealed, and the transfer doesn't compute it.
        guard own != nil || !records.isEmpty || !published.manifests.isEmpty || !seal.isEncrypted else {
            return (new, nil)
        }
        let executor = context.blockingExecutor
        let digests = try await taken.digests(withBlocks: seal.isEncrypted, since: former, on: executor)
        let root = digests.contentRoot
        let copied = records.first { record in
            // A copy of a store that has to be replaced is a new store.
            record.contentRoot == root.description && !record.mustReplace
                && record.integrityKey == document.integrityKey
        }
        let settled = try await context.blocking { [state] in
            try own.map { try state.settlePull(of: $0, contentRoot: root) }
        }
        var record = settled ?? copied?.settled(for: root.description)
        record?.path = store.path
        record?.file = store.file
        if let record, record.mustReplace || record.integrityKey != document.integrityKey {
            throw replaced(store, published)
        }
        if let record, record.base != nil || published.manifests.isEmpty { return (record, digests) }
        // Its content may be on the remote although this device doesn't remember it.
        let equal = published.manifests.filter { $0[.store]?.contentRoot == root }
        if let manifest = Lineage.heads(of: equal).last {
            new.contentRoot = root.description
            new.base = manifest.name
            new.contained = Lineage.contained(in: [manifest.name], published.manifests)
        } else if !published.manifests.isEmpty, !request.resolvesDivergence {
            throw unrelated(store, published)
        }
        return (new, digests)
    }

    private func replaced(_ store: LocalStore, _ published: PublishedStores) -> StoreSyncError {
        let remedy =
            published.published.isEmpty
            ? "No device has pushed a store since: if this one is still wanted, copy it to another place and push the copy."
            : "Pull it (with --overwrite if you give up local changes) before you push."
        return StoreSyncError(
            .documentReplaced,
            """
            \(document.document) was deleted and created again, or this client was removed from it, since \(store.path) \
            was last synchronized. \(remedy)
            """
        )
    }

    private func unrelated(_ store: LocalStore, _ published: PublishedStores) -> StoreSyncError {
        let heads = Lineage.heads(of: published.manifests).map { "\($0.name)" }.joined(separator: " and ")
        return StoreSyncError(
            .unrelatedStore,
            """
            \(store.path) descends from no upload of \(document.document) that this device knows. The newest is \
            \(heads). Nothing was published. Pull to another path to compare. Push with --resolves if this store is to \
            replace the stores on the remote.
            """
        )
    }

    /// Returns the upload that equals the store, and an upload on the remote that holds it, if nothing must be
    /// published.
    ///
    /// The second is that upload itself if it's complete there, else a head that includes it.
    func unchanged(
        _ record: StoreRecord,
        _ root: ContentRoot?,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> (name: UploadName, in: StoreManifest)? {
        guard !request.isWhole, let base = record.base, let root, record.contentRoot == root.description else {
            return nil
        }
        let heads = Lineage.heads(of: published.manifests)
        if request.resolvesDivergence, heads.contains(where: { $0.name != base }) { return nil }
        let equal = published.manifests.filter { $0.name == base }
        for manifest in equal + heads.reversed().filter({ $0.includes.contains(base) }) {
            guard let chain = try? StoreChain(manifest, among: published.manifests) else { continue }
            let broken = try await broken(in: [chain], context)
            if broken.isEmpty { return (base, manifest) }
            note(broken: broken)
        }
        return nil
    }

    // MARK: The manifest

    /// The name of a new upload.
    func name(
        for client: RemoteIdentifier,
        _ record: StoreRecord,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> UploadName {
        let remembered = try await context.blocking { [state, key, document] in
            try state.uploads(for: key).map(\.name.generation)
                + [state.rollbackMemory(for: key, document.integrityKey).highestGeneration]
        }
        // A name alone doesn't raise the generation, since an attacker may write any name into the storage.
        let known = published.manifests.map(\.name.generation) + record.contained.map(\.generation) + remembered
        let highest = known.max() ?? 0
        guard highest < UploadReference.generations.upperBound else {
            throw StoreSyncError(
                .corrupt,
                """
                Generation \(highest) of \(document.document) is the highest possible one, so it was forged or damaged \
                on the remote. Push the store as another document.
                """
            )
        }
        return UploadName(client: client, generation: highest + 1, upload: UUID().uuidString)
    }

    /// Returns the upload's manifest, without the entries of its files.
    func manifest(
        _ name: UploadName,
        _ record: StoreRecord,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> StoreManifest {
        var parents = record.contained
        parents.formUnion(try await context.blocking { [state] in try state.openUploads(of: record) })
        if request.resolvesDivergence {
            parents.formUnion(try await headsToReplace(besides: record.contained, published, context))
        }
        let contained = Lineage.contained(in: parents, published.manifests)
        let includes = Lineage.named(of: contained, onRemote: published.names)
        var manifest = StoreManifest(name: name, created: Date(), files: [], includes: includes.subtracting([name]))
        let others = Lineage.heads(of: published.manifests).map(\.name).filter { !includes.contains($0) }
        manifest.otherHeads = Set(others.suffix(StoreManifest.maximumNames))
        guard includes.count <= StoreManifest.maximumNames else { throw tooManyUploads(includes.count) }
        return manifest
    }

    /// Returns the heads that the user replaces with the store.
    ///
    /// - Parameters:
    ///   - contained: The uploads that the store contains.
    ///   - published: The uploads on the remote.
    ///   - context: The operation.
    /// - Returns: Their names.
    /// - Throws: ``StoreSyncError/Code/noUploadedStore`` if a head is incomplete: the user can't have inspected it.
    private func headsToReplace(
        besides contained: Set<UploadName>,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> Set<UploadName> {
        let heads = Lineage.heads(of: published.manifests).filter { !contained.contains($0.name) }
        let names = Set(heads.map(\.name))
        if request.isWhole { return names }
        let torn = names.subtracting(try await whole(heads, published, context).map(\.name))
        if let head = torn.max() {
            throw StoreSyncError(
                .noUploadedStore,
                """
                The files of \(head) haven't all arrived, so you can't have seen which edits it holds. Nothing was \
                published. Try again when they have; if they are lost, push with --resolves --whole.
                """
            )
        }
        return names
    }

    private func tooManyUploads(_ count: Int) -> StoreSyncError {
        StoreSyncError(
            .cannotWrite,
            """
            \(document.document) has uploads of too many clients: a manifest names \(StoreManifest.maximumNames) uploads, \
            and this one would name \(count). Nothing was published. Remove unused clients (storesync remove client \
            ID), then push again.
            """
        )
    }
}
