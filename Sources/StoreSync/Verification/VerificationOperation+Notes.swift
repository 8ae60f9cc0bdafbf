import RemoteStorage

/// Checks of notes on clients and documents, and of the times of pushes and pulls.
extension VerificationOperation {
    /// Checks the notes on clients that were removed and documents that were deleted.
    func checkNotes() async throws {
        try await checkClientNotes(on: .application(hierarchy))
        for document in try await hooks.listItems(in: hierarchy.deletedDocuments).noteIdentifiers {
            try await check(hierarchy.deletedDocument(document), .deletedDocument(document)) { _ in }
        }
    }

    /// Checks the notes on clients that were removed from the application or from a document.
    ///
    /// A name may have several readings. The note is intact if it counts by one of them.
    func checkClientNotes(on subject: ClientNotes.Subject) async throws {
        let notes = ClientNotes(subject: subject, seal: seal, hooks: backend.applicationRegistrationHooks)
        for name in try await notes.hooks.listClientNotes(in: subject.directory) {
            let readings = ClientNoteName.readings(of: name)
            guard let last = readings.last, let path = try? subject.directory.appending(name) else { continue }
            try await check(path) { [seal] content in
                let isIntact = readings.contains { notes.warning(about: ClientNote(name: $0, content: content)) == nil }
                if !isIntact { _ = try seal.open(content, as: subject.role(last), at: path) }
            }
        }
    }

    /// Checks the files that say when the registered clients last pushed or pulled.
    func checkRecentSyncs(_ document: DocumentHierarchy, _ identity: DocumentIdentity) async throws {
        // A conflict copy of such a file may be named as another client's.
        let registered = try await backend.applicationRegistrationHooks.listClients(hierarchy)
        for client in try await backend.clients(of: document).intersection(registered) {
            let path = document.recentSync(client)
            try await check(path) { [seal] in _ = try seal.recentSync($0, of: client, identity, at: path) }
        }
    }

    /// Returns whether an authentic note says that the document was deleted, and not only a former one of its name.
    func wasDeleted(_ document: DocumentHierarchy, _ info: DocumentInfo?, isThere: Bool) async throws -> Bool {
        let notes = DeletedDocumentNotes(hierarchy: hierarchy, seal: seal, backend: backend)
        guard let deleted = try await notes.deleted(document.document) else { return false }
        return info?.wasDeleted(accordingTo: deleted) ?? !isThere
    }
}
