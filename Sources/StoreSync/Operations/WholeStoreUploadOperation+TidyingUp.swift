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

    /// Refreshes the fixed names and removes this client's older uploads; what doesn't work is a warning.
    func tidyUp(
        _ manifest: StoreManifest,
        _ kept: KeptUploads,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async -> [String] {
        var warnings: [String] = []
        // TICoreDataSync can't read a sealed tree.
        if !seal.isEncrypted {
            await refreshFixedNames(manifest, &warnings)
        }
        do {
            try await removeFormerUploads(manifest, kept, published, context)
        } catch {
            warnings.append("Some of this client's former uploads are still on the remote: \(error).")
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

    /// Removes this client's uploads that aren't kept, and what it left of others.
    ///
    /// Only its owner removes an upload.
    private func removeFormerUploads(
        _ manifest: StoreManifest,
        _ kept: KeptUploads,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws {
        let client = manifest.name.client
        let known = try await context.blocking { [state, key] in
            Set(try state.uploads(for: key, client: client.rawValue).map(\.reference))
        }
        let abandoned = published.folders.filter { folder in
            folder.client == client && folder != manifest.name && known.contains(folder.reference)
                && !published.published.contains(folder) && !kept.needed.contains(folder)
        }
        for name in kept.outdated + abandoned {
            try await hooks.removeUpload(manifest: hierarchy.manifest(name), directory: hierarchy.upload(name))
            try await context.blocking { [state] in try state.forgetUpload(name.upload) }
        }
    }
}
