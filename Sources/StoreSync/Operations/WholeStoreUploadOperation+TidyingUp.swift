import Operations
import RemoteStorage
import SyncCryptography

/// What comes after the commit.
extension WholeStoreUploadOperation {
    /// Remembers what the next push is compared with.
    func remember(_ manifest: StoreManifest, _ blocks: BlockDigests?, _ context: OperationContext) async {
        guard let blocks, let subject = PushedBlocks.Subject(manifest, key, seal, blocks) else { return }
        // If it can't be remembered, the next push is a whole copy.
        try? await context.blocking { [state, key] in
            state.pushedBlocks(of: key).write(PushedBlocks(subject, blocks))
        }
    }

    /// Refreshes the fixed names, and removes this client's older uploads and those of removed clients; what doesn't work is
    /// a warning.
    func tidyUp(
        _ manifest: StoreManifest,
        _ kept: KeptUploads,
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
            let abandoned = try await abandonedUploads(manifest, kept, published, context)
            for name in kept.outdated + abandoned + ofRemovedClients {
                try await hooks.removeUpload(manifest: hierarchy.manifest(name), directory: hierarchy.upload(name))
            }
            for client in Set(ofRemovedClients.map(\.client)) {
                // Only what was listed: an upload that the client has published since is a head, and stays.
                for file in (published.fixedNames[client] ?? [:]).keys {
                    try await backend.remove(file.path(in: hierarchy.wholeStores(client)))
                }
            }
        } catch {
            warnings.append("Some former uploads are still on the remote: \(error).")
        }
        return warnings
    }

    private func refreshFixedNames(_ manifest: StoreManifest, _ warnings: inout [String]) async {
        do {
            let directory = hierarchy.upload(manifest.name)
            let fixed = hierarchy.wholeStores(manifest.name.client)
            // The store first: a new store beside old applied sets has changes applied twice, the reverse loses some.
            try await hooks.refreshFixedName(
                from: WholeStoreFile.store.path(in: directory),
                to: WholeStoreFile.store.path(in: fixed)
            )
            try await together(WholeStoreFile.appliedSets) { [hooks] file in
                try await hooks.refreshFixedName(from: file.path(in: directory), to: file.path(in: fixed))
            }
        } catch {
            warnings.append("The copy for readers that know only TICoreDataSync is the former one: \(error).")
        }
    }

    /// What pushes of this client that were cut off have left.
    private func abandonedUploads(
        _ manifest: StoreManifest,
        _ kept: KeptUploads,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> [UploadName] {
        let client = manifest.name.client
        let known = try await context.blocking { [state, key] in
            Set(try state.uploads(for: key, client: client).map(\.name))
        }
        return published.folders.filter { folder in
            folder.client == client && folder != manifest.name && known.contains(folder)
                && !published.names.contains(folder) && !kept.needed.contains(folder)
        }
    }

    // MARK: Removed clients

    /// The uploads of removed clients among those that a new one includes; and warnings of notes that aren't authentic.
    ///
    /// Their owners are gone, so whichever client includes them removes them.
    func uploadsOfRemovedClients(
        including includes: Set<UploadName>,
        _ published: PublishedStores
    ) async -> ([UploadName], warnings: [String]) {
        let own = document.application.client
        let included = published.published.filter { $0.client != own && includes.contains($0) }
        guard !included.isEmpty else { return ([], []) }
        do {
            let notes = try await DeletedClientNotes.read(
                of: Set(included.map(\.client)),
                document,
                backend.documentRegistrationHooks
            )
            let gone = included.filter { notes.deleted.contains($0.client) }
            // What stays may build on what would go.
            let staying = published.manifests.filter { !gone.contains($0.name) }
            let needed = StoreChain.uploadsNeeded(by: staying)
            return (gone.filter { !needed.contains($0) }.sorted(by: >), notes.warnings)
        } catch {
            return ([], ["Uploads of removed clients are still on the remote: \(error)."])
        }
    }
}
