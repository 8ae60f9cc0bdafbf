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
        let document: RemoteIdentifier
        let info: Reading<DocumentInfo>
        /// The clients that are registered with it.
        let clients: [RemoteIdentifier]
        /// When each of them last pushed or pulled it.
        let recentSyncs: [RemoteIdentifier: Reading<RecentSync>]

        /// The times that could be read.
        var lastSyncs: [RemoteIdentifier: Date] { recentSyncs.compactMapValues { $0.value?.date } }
        /// Its files that can't be read.
        var unreadable: [ApplicationStatus.Unreadable] {
            [info.unreadable].compactMap(\.self) + recentSyncs.values.compactMap(\.unreadable)
        }
    }

    /// Reads what is known of clients.
    func clients(_ clients: [RemoteIdentifier]) async throws -> [Client] {
        let hooks = backend.applicationRegistrationHooks
        return try await clients.concurrentMap { client in
            let path = hierarchy.deviceInfo(client)
            let info = try await Reading.of(path) {
                try await hooks.fetchDeviceInfo(of: client, hierarchy)
            } _: { bytes throws(StoreSyncError) in
                try DeviceInfo(seal.open(bytes, as: .deviceInfo(client), at: path), at: path)
            }
            return Client(client: client, info: info)
        }
    }

    /// Reads what is known of a document, in two rounds of requests.
    func document(_ document: RemoteIdentifier) async throws -> Document {
        let (hooks, hierarchy) = (backend.documentRegistrationHooks, hierarchy.document(document))
        let path = hierarchy.documentInfo
        async let listed = hooks.listClients(hierarchy)
        let info = try await Reading.of(path) {
            try await hooks.fetchDocumentInfo(hierarchy)
        } _: { bytes throws(StoreSyncError) in
            try DocumentInfo(seal.open(bytes, as: .documentInfo(document), at: path), at: path)
        }
        let clients = try await listed
        return Document(
            document: document,
            info: info,
            clients: clients,
            recentSyncs: info.value == nil
                ? [:] : try await recentSyncs(of: clients, hierarchy, info.value?.integrityKey ?? "")
        )
    }

    /// Reads when clients last pushed or pulled a document.
    private func recentSyncs(
        of clients: [RemoteIdentifier],
        _ hierarchy: DocumentHierarchy,
        _ integrityKey: String
    ) async throws -> [RemoteIdentifier: Reading<RecentSync>] {
        let hooks = backend.recentSyncHooks
        let identity = DocumentIdentity(document: hierarchy.document, integrityKey: integrityKey)
        let found = try await clients.concurrentMap { client in
            let path = hierarchy.recentSync(client)
            let reading = try await Reading.of(path) {
                try await hooks.fetchRecentSync(of: client, hierarchy)
            } _: { bytes throws(StoreSyncError) in
                try RecentSync(seal.open(bytes, as: .recentSync(client, of: identity), at: path), at: path)
            }
            return (client, reading)
        }
        return Dictionary(uniqueKeysWithValues: found)
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
        return Dictionary(
            uniqueKeysWithValues: left.map {
                ($0.document, .init(.removalInterrupted($0.document), at: hierarchy.document($0.document).root))
            }
        )
    }
}

extension StoreSyncError {
    /// A document was deleted, and something of it is left.
    static func removalInterrupted(_ document: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(
            .documentDeleted,
            """
            \(document) was deleted, and its removal is in progress or was interrupted. Complete it with storesync remove \
            document \(document).
            """
        )
    }
}
