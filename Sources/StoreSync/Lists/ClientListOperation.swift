import Foundation
public import Operations
public import RemoteStorage
import ThreadSupport

/// Lists the clients of an application or of one of its documents, without registering this device or changing anything.
///
/// ```swift
/// let list = try await supervisor.add(ClientListOperation(of: document, access)).value
/// for client in list.clients { print(client.client, client.description) }
/// ```
///
/// A file that can't be read is named in ``ClientList/unreadable``.
public actor ClientListOperation: Operation {
    private let document: RemoteIdentifier?
    private let access: ApplicationAccess
    private let registration: any ApplicationRegistrationHooks
    private let documents: any DocumentRegistrationHooks

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - document: The document whose clients are listed; `nil` for all clients of the application.
    ///   - access: The application.
    public init(of document: RemoteIdentifier? = nil, _ access: ApplicationAccess) {
        self.document = document
        self.access = access
        registration = access.backend.applicationRegistrationHooks
        documents = access.backend.documentRegistrationHooks
    }

    /// Lists the clients in four rounds of requests, however many there are.
    ///
    /// - Throws: ``StoreSyncError``, among others `applicationMissing`, `passwordRequired`, `documentNotFound`,
    ///   `documentDeleted` and `remoteUnavailable`; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> ClientList {
        try await translatingErrors {
            async let names = documentNames()
            async let registered = registration.listClients(access.hierarchy)
            let seal = try await access.seal(context)
            context.reportProgress(0.3)
            let reader = HierarchyReader(hierarchy: access.hierarchy, seal: seal, backend: access.backend)
            let clients = try await registered
            let listed = try await names.concurrentMap { try await reader.document($0, of: clients) }
            if document != nil, let only = listed.first { try await refuseMissing(only, reader) }
            async let recentSyncs = reader.recentSyncs(of: listed)
            let infos = try await reader.clients(document == nil ? clients.sorted() : listed.flatMap(\.clients))
            let (times, unreadable) = try await (recentSyncs.times, recentSyncs.unreadable)
            return ClientList(
                application: access.application,
                document: document,
                clients: infos.map { Self.client($0, listed, times) },
                unreadable: (infos.compactMap(\.info.unreadable) + listed.compactMap(\.info.unreadable) + unreadable)
                    .sorted { $0.path < $1.path }
            )
        }
    }

    /// The documents whose clients are listed.
    private func documentNames() async throws -> [RemoteIdentifier] {
        if let document { return [document] }
        return try await documents.listDocuments(access.hierarchy)
    }

    private static func client(
        _ client: HierarchyReader.Client,
        _ documents: [HierarchyReader.Document],
        _ times: [RemoteIdentifier: [RemoteIdentifier: Date]]
    ) -> ClientList.Client {
        ClientList.Client(
            client: client.client,
            description: client.info.value?.description ?? "",
            userInfo: client.info.value?.userInfo ?? [:],
            documents: documents.filter { $0.clients.contains(client.client) }.map(\.document).sorted(),
            lastSync: times.values.compactMap { $0[client.client] }.max()
        )
    }

    /// Refuses a document that doesn't exist.
    private func refuseMissing(_ document: HierarchyReader.Document, _ reader: HierarchyReader) async throws {
        let notes = DeletedDocumentNotes(hierarchy: access.hierarchy, seal: reader.seal, backend: access.backend)
        let deleted = try await notes.deleted(document.document)
        switch (document.info.value, deleted) {
        case (let info?, let deleted?) where info.wasDeleted(accordingTo: deleted):
            throw StoreSyncError.removalInterrupted(document.document)
        case (nil, _?) where document.info.unreadable == nil:
            throw StoreSyncError(.documentDeleted, "\(document.document) was deleted.")
        case (nil, nil) where document.info.unreadable == nil:
            throw access.documentNotFound(document.document)
        default: break
        }
    }
}
