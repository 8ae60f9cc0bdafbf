import RemoteStorage
import ThreadSupport

/// The clients that were removed from an application or a document, according to authentic notes.
struct DeletedClientNotes: Sendable {
    /// The clients that were removed.
    var deleted: Set<RemoteIdentifier> = []
    /// The warnings about notes that aren't authentic.
    var warnings: [String] = []

    /// Reads the notes on the removal of some clients.
    static func read(
        of clients: Set<RemoteIdentifier>,
        _ document: DocumentRegistration,
        _ hooks: any DocumentRegistrationHooks
    ) async throws -> DeletedClientNotes {
        let (application, hierarchy, seal) = (
            document.application.hierarchy, document.hierarchy, document.application.seal
        )
        let applicationHooks = hooks.backend.applicationRegistrationHooks
        async let ofApplication = applicationHooks.listDeletedClients(application)
        async let ofDocument = hooks.listDeletedClients(hierarchy)
        var notes = DeletedClientNotes()
        let removed = try await ofApplication.filter(clients.contains).concurrentMap {
            ($0, try await applicationHooks.fetchDeletedClientNote($0, application))
        }
        for case (let client, let note?) in removed {
            notes.add(client, seal.warning(ofRemovalNote: note, on: client, application))
        }
        let excluded = try await ofDocument.filter(clients.contains).concurrentMap {
            ($0, try await hooks.fetchDeletedClientNote($0, hierarchy))
        }
        for case (let client, let note?) in excluded {
            notes.add(client, seal.warning(ofRemovalNote: note, on: client, from: document.identity, hierarchy))
        }
        return notes
    }

    private mutating func add(_ client: RemoteIdentifier, _ warning: String?) {
        if let warning { warnings.append(warning) } else { deleted.insert(client) }
    }
}
