import RemoteStorage

/// Checks of what devices exchange when they synchronize a document record by record.
extension VerificationOperation {
    /// Checks where the document's change sets begin, the clients' heads, and the files with older change sets.
    func checkChangeSets(_ document: DocumentHierarchy, _ identity: DocumentIdentity) async throws {
        // Listed first: the first device writes the origin before its head.
        let names = try await backend.synchronizationHooks.listSyncHeads(document).compactMap { SyncHeadName($0) }
        var origin: SyncOrigin?
        let path = document.syncOrigin
        let isThere = try await check(path, .syncOrigin(identity)) { origin = try SyncOrigin($0, at: path) }
        if !isThere, !names.isEmpty {
            problem(
                path,
                code: "missing",
                """
                Without it no other device can join. Wait if it may still be arriving; else synchronize on a device that has \
                synchronized the document before, which writes it again.
                """
            )
        }
        guard let origin else { return }
        for name in names.sorted(by: { $0.name < $1.name }) {
            var head: SyncHead?
            let path = document.syncHead(name)
            let role = ApplicationSeal.Role.syncHead(name, since: origin.identifier, of: identity)
            try await checkLog(path, role) { head = try SyncHead($0, named: name, at: path) }
            for segment in head?.segments ?? [] {
                try await check(segment, of: name, since: origin, identity, document)
            }
        }
    }

    private func check(
        _ segment: SyncSegment,
        of head: SyncHeadName,
        since origin: SyncOrigin,
        _ identity: DocumentIdentity,
        _ document: DocumentHierarchy
    ) async throws {
        let client = head.client
        let path = document.syncSegment(segment, of: client)
        guard !known.contains(path) else { return }
        let role = ApplicationSeal.Role.syncSegment(segment, by: client, since: origin.identifier, of: identity)
        let isThere = try await checkLog(path, role) { content in
            let numbers = segment.first..<segment.last + 1
            _ = try EncodedSets.decode(content[...], numbers, of: client, at: path)
        }
        // A client that shortens its log replaces the head first.
        if !isThere, try await hooks.fetchItem(at: document.syncHead(head)) != nil {
            let advice = "Wait, or run storesync vacuum on that client's device, which publishes it again."
            problem(path, code: "missing", "It has not arrived, or was removed. \(advice)")
        }
    }
}
