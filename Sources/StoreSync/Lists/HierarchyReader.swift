import Foundation
import RemoteStorage
import ThreadSupport

/// Reads what is known of an application's clients and documents.
///
/// What is missing, damaged or not authentic becomes a part of the result, so one bad file never hides all others.
struct HierarchyReader: Sendable {
    let hierarchy: ApplicationHierarchy
    let seal: ApplicationSeal
    let backend: any RemoteBackend

    /// A client, with what is known of it.
    struct Client: Sendable {
        let client: RemoteIdentifier
        let info: Reading<DeviceInfo>
    }

    /// A document as its info and its directories show it.
    struct Document: Sendable {
        let identity: DocumentIdentity
        let info: Reading<DocumentInfo>
        /// The clients that are registered with it.
        let clients: [RemoteIdentifier]

        var document: RemoteIdentifier { identity.document }
    }

    /// When the clients of documents last pushed or pulled.
    struct RecentSyncs: Sendable {
        /// The times that could be read, by document and client.
        var times: [RemoteIdentifier: [RemoteIdentifier: Date]] = [:]
        /// The files that can't be read.
        var unreadable: [ApplicationStatus.Unreadable] = []
    }

    /// Reads what is known of clients.
    func clients(_ clients: [RemoteIdentifier]) async throws -> [Client] {
        let hooks = backend.applicationRegistrationHooks
        return try await clients.concurrentMap { client in
            let info = try await Reading.of(hierarchy.deviceInfo(client)) {
                try await hooks.fetchDeviceInfo(of: client, hierarchy)
            } _: { bytes throws(StoreSyncError) in
                try seal.deviceInfo(bytes, of: client, hierarchy)
            }
            return Client(client: client, info: info)
        }
    }

    /// Reads what is known of a document.
    ///
    /// Of the clients that have directories in it only `registered` ones count, since a removed client's directories stay.
    func document(_ document: RemoteIdentifier, of registered: [RemoteIdentifier]) async throws -> Document {
        let (hooks, hierarchy) = (backend.documentRegistrationHooks, hierarchy.document(document))
        async let found = backend.clients(of: hierarchy)
        async let notes = hooks.listClientNotes(in: hierarchy.deletedClients)
        let info = try await Reading.of(hierarchy.documentInfo) {
            try await hooks.fetchDocumentInfo(hierarchy)
        } _: { bytes throws(StoreSyncError) in
            try seal.documentInfo(bytes, hierarchy)
        }
        let identity = DocumentIdentity(document: document, integrityKey: info.value?.integrityKey ?? "")
        let clients = try await found.intersection(registered)
        let removed = try await ClientNotes(subject: .document(hierarchy, identity), seal: seal, hooks: hooks)
            .removed(among: clients, named: notes)
        return Document(identity: identity, info: info, clients: clients.subtracting(removed.clients).sorted())
    }

    /// Reads when the clients of documents last pushed or pulled them.
    func recentSyncs(of documents: [Document]) async throws -> RecentSyncs {
        let hooks = backend.recentSyncHooks
        let wanted = documents.filter { $0.info.value != nil }.flatMap { document in
            document.clients.map { (client: $0, document.identity) }
        }
        let readings = try await wanted.concurrentMap { client, identity in
            let document = hierarchy.document(identity.document)
            let path = document.recentSync(client)
            return try await Reading.of(path) {
                try await hooks.fetchRecentSync(of: client, document)
            } _: { bytes throws(StoreSyncError) in
                try seal.recentSync(bytes, of: client, identity, at: path)
            }
        }
        var found = RecentSyncs(unreadable: readings.compactMap(\.unreadable))
        for ((client, identity), reading) in zip(wanted, readings) {
            found.times[identity.document, default: [:]][client] = reading.value?.date
        }
        return found
    }

    /// The problems of documents that were deleted, and of which something is left.
    func interruptedRemovals(among documents: [Document]) async throws -> [RemoteIdentifier: ApplicationStatus
        .Unreadable]
    {
        let notes = DeletedDocumentNotes(hierarchy: hierarchy, seal: seal, backend: backend)
        let deleted = try await notes.deleted(among: documents.map(\.document))
        let left = documents.filter { document in
            guard let deleted = deleted[document.document], document.info.unreadable == nil else { return false }
            return document.info.value?.wasDeleted(accordingTo: deleted) ?? true
        }
        // A backend's own hooks may list a document twice.
        return Dictionary(
            left.map {
                ($0.document, .init(.removalInterrupted($0.document), at: hierarchy.document($0.document).root))
            }
        ) { first, _ in first }
    }
}
