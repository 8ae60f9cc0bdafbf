import RemoteStorage
import ThreadSupport

/// Clients that were removed from an application or a document, according to notes that count.
struct RemovedClients: Sendable {
    var clients: Set<RemoteIdentifier> = []
    /// The warnings about notes that don't count.
    var warnings: [String] = []

    /// The clients that were removed from the document or from its application.
    static func read(
        of clients: Set<RemoteIdentifier>,
        _ document: DocumentRegistration,
        _ hooks: any ClientNoteHooks
    ) async throws -> RemovedClients {
        let (application, seal) = (document.application.hierarchy, document.application.seal)
        let subjects: [ClientNotes.Subject] = [
            .application(application), .document(document.hierarchy, document.identity),
        ]
        return try await subjects.concurrentMap {
            try await ClientNotes(subject: $0, seal: seal, hooks: hooks).removed(among: clients)
        }.reduce(into: RemovedClients()) { all, some in
            all.clients.formUnion(some.clients)
            all.warnings += some.warnings
        }
    }
}
