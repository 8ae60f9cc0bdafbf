import ContentDigests
import Foundation
import Operations
import RemoteStorage
import ThreadSupport

/// The work after the commit.
extension WholeStoreUploadOperation {
    /// Saves the block digests that the next push is compared with.
    func remember(_ manifest: StoreManifest, _ blocks: BlockDigests?, _ context: OperationContext) async {
        guard let blocks, let subject = PushedBlocks.Subject(manifest, key, seal, blocks) else { return }
        // If they can't be saved, the next push is a whole copy.
        try? await context.blocking { [state, key] in
            state.pushedBlocks(of: key).write(PushedBlocks(subject, blocks))
        }
    }

    /// Does the work after the commit of a push that was interrupted before it did all of it.
    ///
    /// Returns failures as warnings.
    func completePush(
        of equal: EqualUpload,
        _ target: UploadTarget,
        _ context: OperationContext
    ) async -> [String] {
        let name = equal.name
        guard target.incomplete == name else { return [] }
        var others = target.published
        others.manifests.removeAll { $0.name == name }
        others.published.removeAll { $0 == name }
        guard let manifest = target.published.manifests.first(where: { $0.name == name }) else {
            // Unless its manifest can't be read now, another upload has superseded it.
            if !target.published.names.contains(name) { await noteComplete(name, context) }
            return []
        }
        await remember(manifest, equal.blocks, context)
        let (outdated, notes) = await uploadsOfRemovedClients(including: manifest.includes, others)
        return await notes + tidyUp(manifest, outdated, others, context)
    }

    /// Remembers that the work after an upload was done; if that fails, the next push repeats it.
    private func noteComplete(_ name: UploadName, _ context: OperationContext) async {
        try? await context.blocking { [state, key] in try state.completePush(of: name, document: key) }
    }

    /// Refreshes the fixed names, and removes this client's older uploads and those of removed clients.
    ///
    /// Returns failures as warnings.
    func tidyUp(
        _ manifest: StoreManifest,
        _ ofRemovedClients: [UploadName],
        _ published: PublishedStores,
        _ context: OperationContext
    ) async -> [String] {
        var warnings: [String] = []
        // TICoreDataSync can't read a sealed tree.
        if !seal.isEncrypted {
            await refreshFixedNames(manifest, &warnings)
        }
        do {
            let client = manifest.name.client
            let present = published.names.union(published.folders).filter { $0.client == client }.union([manifest.name])
            let known = published.names.union(published.included).union(manifest.includes)
            let (own, damaged) = try await context.blocking { [state, key] in
                (
                    try state.uploads(for: key, .named(present))
                        + state.uploads(for: key, .lastPublished(by: client, besides: known)),
                    try state.damagedUploads(for: key)
                )
            }
            let kept = KeptUploads(published, by: manifest, among: own, damaged: broken.union(damaged))
            for name in kept.outdated + kept.abandoned { try await remove(name) }
            try await removeUploads(ofRemovedClients, published)
        } catch {
            warnings.append("Some former uploads are still on the remote. \(StoreSyncError.sentence(about: error))")
        }
        // What failed is tried again after the next publication.
        await noteComplete(manifest.name, context)
        return warnings
    }

    private func refreshFixedNames(_ manifest: StoreManifest, _ warnings: inout [String]) async {
        do {
            let directory = hierarchy.upload(manifest.name)
            let fixed = hierarchy.wholeStores(manifest.name.client)
            // The store comes first: a new store with old applied sets has changes applied twice, the reverse loses
            // some.
            try await hooks.refreshFixedName(
                from: WholeStoreFile.store.path(in: directory),
                to: WholeStoreFile.store.path(in: fixed)
            )
            try await WholeStoreFile.appliedSets.concurrentMap { [hooks] file in
                try await hooks.refreshFixedName(from: file.path(in: directory), to: file.path(in: fixed))
            }
        } catch {
            let reason = StoreSyncError.sentence(about: error)
            warnings.append("The copy for programs that know only TICoreDataSync wasn't refreshed. \(reason)")
        }
    }

    private func remove(_ name: UploadName) async throws {
        try await hooks.removeUpload(manifest: hierarchy.manifest(name), directory: hierarchy.upload(name))
    }

    // MARK: Removed clients

    /// Returns the included uploads of removed clients, and warnings about notes that aren't authentic.
    ///
    /// Their owners no longer exist, so any client that includes them removes them.
    func uploadsOfRemovedClients(
        including includes: Set<UploadName>,
        _ published: PublishedStores
    ) async -> ([UploadName], warnings: [String]) {
        let own = document.application.client
        let included = published.published.filter { $0.client != own && includes.contains($0) }
        guard !included.isEmpty else { return ([], []) }
        do {
            let removed = try await RemovedClients.read(
                of: Set(included.map(\.client)),
                document,
                backend.documentRegistrationHooks
            )
            let settled = try await clientsWithoutUnreadUploads(among: removed.clients, besides: includes, published)
            let gone = included.filter { settled.contains($0.client) }
            // Uploads that stay may build on uploads that would be removed.
            let staying = published.manifests.filter { !gone.contains($0.name) }
            let needed = StoreChain.uploadsNeeded(by: staying)
            return (gone.filter { !needed.contains($0) }.sorted(by: >), removed.warnings)
        } catch {
            let reason = StoreSyncError.sentence(about: error)
            return ([], ["Uploads of removed clients are still on the remote. \(reason)"])
        }
    }

    /// Returns the clients all of whose uploads are known: an upload that couldn't be read may build on any other.
    ///
    /// A manifest that is cut off or damaged for a month won't become readable any more.
    private func clientsWithoutUnreadUploads(
        among clients: Set<RemoteIdentifier>,
        besides includes: Set<UploadName>,
        _ published: PublishedStores
    ) async throws -> Set<RemoteIdentifier> {
        let known = includes.union(published.manifests.map(\.name))
        let start = state.startOfArrivals
        let damaged = published.unreadable.filter { name, error in
            [.corrupt, .tampered].contains(error.code) && published.modified[name] ?? .distantFuture <= start
        }
        let unread = published.names.subtracting(known).subtracting(damaged.map(\.name)).map(\.client)
        // A delta whose manifest hasn't arrived, unless its client died a month ago. A whole copy builds on nothing.
        let arriving = Set(published.folders).subtracting(known).subtracting(published.names)
            .filter { clients.contains($0.client) }
        let deltas = try await catalog.files(of: Array(arriving)).filter { folder, files in
            files.contains { $0.name == hierarchy.delta(folder).lastComponent && $0.modified ?? .distantFuture > start }
        }
        return clients.subtracting(unread).subtracting(deltas.keys.map(\.client))
    }

    /// Removes uploads of removed clients, with the fixed names of those clients.
    ///
    /// If a client has published since, or begun to, its new upload may build on them, so its uploads stay.
    private func removeUploads(_ uploads: [UploadName], _ published: PublishedStores) async throws {
        let known = published.names.union(published.folders)
        for (client, uploads) in Dictionary(grouping: uploads, by: \.client).sorted(by: { $0.key < $1.key }) {
            let listed = try await hooks.listUploads(of: client, hierarchy)
                .compactMap { UploadName(client: client, listed: $0) }
            guard known.isSuperset(of: listed) else { continue }
            for name in uploads { try await remove(name) }
            for file in (published.fixedNames[client] ?? [:]).keys {
                try await hooks.removeFixedName(file.path(in: hierarchy.wholeStores(client)))
            }
        }
    }

    /// Removes the uploads of removed clients if there are so many uploads that a manifest may be unable to name them all.
    ///
    /// Only uploads that a complete head includes are removed.
    ///
    /// - Parameters:
    ///   - published: The uploads on the remote.
    ///   - expected: The clients that are expected there.
    ///   - context: The operation.
    /// - Returns: The uploads on the remote after that.
    /// - Throws: ``StoreSyncError``, and what the backend throws.
    func makingRoom(
        in published: PublishedStores,
        expecting expected: Set<RemoteIdentifier>,
        _ context: OperationContext
    ) async throws -> PublishedStores {
        guard published.names.count + Lineage.maximumRemoved >= StoreManifest.maximumNames else { return published }
        let heads = try await completeUploads(among: Lineage.heads(of: published.manifests), published, context)
        let included = heads.reduce(into: Set<UploadName>()) { $0.formUnion($1.includes) }
        let (removable, _) = await uploadsOfRemovedClients(including: included, published)
        guard !removable.isEmpty else { return published }
        try await removeUploads(removable, published)
        return try await catalog.read(expecting: expected)
    }
}
