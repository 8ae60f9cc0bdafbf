import Operations
import RemoteStorage

/// What comes after the commit.
extension WholeStoreUploadOperation {
    /// Refreshes the fixed names and removes this client's older uploads; what doesn't work is a warning.
    func tidyUp(
        _ manifest: StoreManifest,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async -> [String] {
        var warnings: [String] = []
        // TICoreDataSync can't read a sealed tree.
        if !seal.isEncrypted {
            await refreshFixedNames(manifest, &warnings)
        }
        do {
            try await removeFormerUploads(manifest, published, context)
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

    /// Keeps this upload and the one before, and whatever isn't contained in this one.
    ///
    /// Only its owner removes an upload.
    private func removeFormerUploads(
        _ manifest: StoreManifest,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws {
        let client = manifest.name.client
        let known = try await context.blocking { [state, key] in
            Set(try state.uploads(for: key, client: client.rawValue).map(\.reference))
        }
        let former = published.published.filter { $0.client == client }
        let previous = former.map(\.generation).max() ?? 0
        let outdated = former.filter {
            $0.generation < previous && manifest.includes.contains(client: client.rawValue, $0.reference)
        }
        let abandoned = published.folders.filter { folder in
            folder.client == client && folder != manifest.name && known.contains(folder.reference)
                && !former.contains(folder)
        }
        for name in outdated + abandoned {
            try await hooks.removeUpload(manifest: hierarchy.manifest(name), directory: hierarchy.upload(name))
            try await context.blocking { [state] in try state.forgetUpload(name.upload) }
        }
    }
}
