import Operations
import RemoteStorage

/// Checks of folders that aren't published, and of the files with fixed names.
extension VerificationOperation {
    /// Checks folders without a manifest, and the files with fixed names.
    func checkFolders(
        _ published: PublishedStores,
        _ document: DocumentHierarchy,
        _ own: RemoteIdentifier?,
        _ context: OperationContext
    ) async throws {
        let key = key(of: document)
        let ours = try await context.blocking { [state] in try state.uploads(for: key) }
        let (names, abandoned) = (published.names, published.abandoned(among: ours))
        for folder in published.folders where !names.contains(folder) {
            for file in WholeStoreFile.allCases { known.insert(file.path(in: document.upload(folder))) }
            known.insert(document.delta(folder))
            let path = document.upload(folder)
            guard folder.client == own, ours.contains(where: { $0.name == folder }) else {
                report.warnings.append("\(path) isn't published: that client's push is in progress or was interrupted.")
                continue
            }
            guard abandoned.contains(folder) else {
                report.warnings.append(
                    "\(path) isn't removed: its manifest, or that of an upload which builds on it, may still arrive."
                )
                continue
            }
            guard repairs else {
                report.warnings.append(
                    "\(path) is left from an interrupted push of this device: --repair removes it."
                )
                continue
            }
            try await withoutPush(of: document, context) { published in
                guard !published.names.contains(folder) else { return }
                try await hooks.removeLeftover(at: path)
                repaired(path)
            }
        }
        for (client, files) in published.fixedNames {
            for file in files.keys { known.insert(file.path(in: document.wholeStores(client))) }
        }
        // A sealed tree has no fixed names.
        if let own, !seal.isEncrypted { try await checkFixedNames(of: own, published, document, context) }
    }

    /// Repairs something while no push of this device is in progress; a warning says if one is.
    ///
    /// `body` gets what is published now: a push may have ended since the verification began.
    private func withoutPush(
        of document: DocumentHierarchy,
        _ context: OperationContext,
        _ body: (PublishedStores) async throws -> Void
    ) async throws {
        let lock: FileLock
        do {
            lock = try await state.lock(.document(key(of: document)), .exclusive, for: context)
        } catch let error as StoreSyncError where error.code == .busy {
            report.warnings.append("\(document.root) isn't repaired while this device pushes it: repair again later.")
            return
        }
        defer { lock.release() }
        try await body(PublishedStores.list(backend.wholeStoreUploadHooks, document))
    }

    /// Checks that the fixed names hold this client's newest store, since an interrupted push may have left an older
    /// one.
    private func checkFixedNames(
        of own: RemoteIdentifier,
        _ published: PublishedStores,
        _ document: DocumentHierarchy,
        _ context: OperationContext
    ) async throws {
        guard let newest = published.newest.first(where: { $0.client == own }) else { return }
        func refresh(_ fixed: RemotePath, from source: RemotePath) async throws {
            guard repairs else {
                report.warnings.append("\(fixed) is older than this device's newest upload: --repair refreshes it.")
                return
            }
            try await withoutPush(of: document, context) { published in
                guard published.newest.contains(newest) else { return }
                try await backend.wholeStoreUploadHooks.refreshFixedName(from: source, to: fixed)
                repaired(fixed)
            }
        }
        let directory = document.upload(newest)
        for file in WholeStoreFile.allCases {
            let (source, fixed) = (file.path(in: directory), file.path(in: document.wholeStores(own)))
            known.insert(fixed)
            guard let expected = try await hooks.openFile(at: source), let actual = try await hooks.openFile(at: fixed)
            else {
                if try await hooks.fetchItem(at: source) != nil { try await refresh(fixed, from: source) }
                continue
            }
            guard try await digest(of: expected).root != digest(of: actual).root else { continue }
            try await refresh(fixed, from: source)
        }
    }
}
