import RemoteStorage
import StoreChanges

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
        var runs: [RemotePath: SetRun] = [:]
        for name in names.sorted(by: { $0.name < $1.name }) {
            var head: SyncHead?
            let path = document.syncHead(name)
            let role = ApplicationSeal.Role.syncHead(name, since: origin.identifier, of: identity)
            try await checkLog(path, role, explaining: { SyncSegment.writtenAgain(by: name.client, $0) }) {
                head = try SyncHead($0, named: name, since: origin.identifier, at: path)
            }
            if let head { try await checkSets(of: head, identity, document, &runs) }
        }
    }

    /// Checks the files with a client's older change sets, and that each set is what the next one, or the head, names.
    private func checkSets(
        of head: SyncHead,
        _ identity: DocumentIdentity,
        _ document: DocumentHierarchy,
        _ runs: inout [RemotePath: SetRun]
    ) async throws {
        var named = head.content.last?.digest
        func check(_ run: SetRun?, at path: RemotePath) {
            if let run, let named, run.last != named {
                let reason = "its last change set isn't what the next one, or the head, names"
                problem(path, SyncSegment.damaged(path, reason, by: head.name.client))
            }
            named = run?.predecessor
        }
        if !head.tail.isEmpty { check(SetRun(head.tail), at: document.syncHead(head.name)) }
        for segment in head.segments.reversed() {
            let path = document.syncSegment(segment, of: head.name.client)
            if !known.contains(path) { runs[path] = try await read(segment, of: head, identity, document) }
            check(runs[path], at: path)
        }
    }

    /// Reads a file with a client's older change sets, and reports a problem if that can't be done.
    private func read(
        _ segment: SyncSegment,
        of head: SyncHead,
        _ identity: DocumentIdentity,
        _ document: DocumentHierarchy
    ) async throws -> SetRun? {
        let client = head.name.client
        let path = document.syncSegment(segment, of: client)
        let role = ApplicationSeal.Role.syncSegment(segment, by: client, since: head.origin, of: identity)
        var run: SetRun?
        let remedy = { SyncSegment.writtenAgain(by: client, $0) }
        let isThere = try await checkLog(path, role, explaining: remedy) { content in
            let numbers = segment.first..<segment.last + 1
            run = try SetRun(EncodedSets.decode(content[...], numbers, of: client, at: path))
        }
        // A client that shortens its log replaces the head first.
        if !isThere, try await hooks.fetchItem(at: document.syncHead(head.name)) != nil {
            let advice = "Wait if it may still be arriving. If it stays missing, \(SyncSegment.remedy(by: client))"
            problem(path, code: "missing", "It has not arrived, or was removed. \(advice)")
        }
        return run
    }
}
