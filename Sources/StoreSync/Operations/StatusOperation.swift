public import Foundation
public import Operations
public import RemoteStorage

/// What is on the remote of an application: what ``StatusOperation`` results in.
public struct ApplicationStatus: Sendable, Hashable {
    /// A registered client.
    public struct Client: Sendable, Hashable {
        /// The client's identifier.
        public let client: RemoteIdentifier
        /// What people call the device.
        public let description: String
        /// What was saved with it.
        public let userInfo: [String: PropertyListValue]
        /// The documents it's registered with.
        public let documents: [RemoteIdentifier]
    }

    /// A registered document.
    public struct Document: Sendable, Hashable {
        /// The document's identifier.
        public let document: RemoteIdentifier
        /// What people call it.
        public let description: String
        /// What was saved with it.
        public let userInfo: [String: PropertyListValue]
        /// The newest store of each client.
        public let stores: [Store]
    }

    /// An uploaded store.
    public struct Store: Sendable, Hashable {
        /// Who uploaded it.
        public let client: RemoteIdentifier
        /// Its generation; 0 for one that TICoreDataSync wrote.
        public let generation: Int
        /// Its size in bytes.
        public let bytes: Int64
        /// When it was uploaded, by the uploader's clock.
        public let modified: Date
    }

    /// The application.
    public let application: RemoteIdentifier
    /// This device's client identifier, if it has one.
    public let client: String?
    /// Whether files are sealed.
    public let isEncrypted: Bool
    /// The registered clients.
    public let clients: [Client]
    /// The registered documents.
    public let documents: [Document]
}

/// Lists an application's clients, documents and stores. Registers nobody and changes nothing.
public actor StatusOperation: Operation {
    private let hierarchy: ApplicationHierarchy
    private let backend: any RemoteBackend
    private let state: StateDirectory
    private let delegate: ApplicationRegistrationOperation.Delegate

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - application: The application.
    ///   - backend: Where it is.
    ///   - state: This device's memory.
    ///   - delegate: Is asked for the password of an encrypted application whose keys this device doesn't have.
    public init(
        _ application: RemoteIdentifier,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: ApplicationRegistrationOperation.Delegate? = nil
    ) {
        hierarchy = ApplicationHierarchy(application)
        self.backend = backend
        self.state = state
        self.delegate = delegate ?? { _ in throw StoreSyncError.passwordRequired(application) }
    }

    /// Looks, in four rounds of requests however many documents there are.
    public func main(_ context: OperationContext) async throws -> ApplicationStatus {
        try await translatingErrors {
            let key = ApplicationKey(remote: backend.identity, application: hierarchy.application.rawValue)
            let own = try await context.blocking { [state] in try state.peekClientIdentifier(for: key) }
            async let exists = backend.status(of: hierarchy.root)
            async let encryption = EncryptionFiles.fetch(backend.applicationRegistrationHooks, hierarchy)
            async let clients = backend.list(hierarchy.clientDevices)
            async let documents = backend.list(hierarchy.documents)
            guard try await exists != nil else {
                throw StoreSyncError(
                    .applicationMissing,
                    "There is no application \(hierarchy.application) at \(backend.identity). Check both names."
                )
            }
            let unlocking = ApplicationUnlocking(hierarchy, backend, state, delegate: delegate)
            let seal = try await unlocking.seal(encryption, context)
            let (clientNames, documentNames) = try await (clients.directoryIdentifiers, documents.directoryIdentifiers)
            async let clientInfos = self.clients(clientNames, seal)
            let listed = try await self.documents(documentNames, seal)
            return ApplicationStatus(
                application: hierarchy.application,
                client: own,
                isEncrypted: seal.isEncrypted,
                clients: try await clientInfos.map { client, info in
                    ApplicationStatus.Client(
                        client: client,
                        description: info?.description ?? "",
                        userInfo: info?.userInfo ?? [:],
                        documents: listed.filter { $0.clients.contains(client) }.map(\.document.document)
                    )
                },
                documents: listed.map(\.document)
            )
        }
    }

    private func clients(
        _ clients: [RemoteIdentifier],
        _ seal: ApplicationSeal
    ) async throws -> [(RemoteIdentifier, DeviceInfo?)] {
        try await together(clients) { [backend, hierarchy] client in
            let path = hierarchy.deviceInfo(client)
            let bytes = try await backend.smallFile(at: path)
            return (
                client, bytes.flatMap { try? DeviceInfo(seal.open($0, as: .deviceInfo(client), at: path), at: path) }
            )
        }
    }

    private func documents(
        _ documents: [RemoteIdentifier],
        _ seal: ApplicationSeal
    ) async throws -> [(document: ApplicationStatus.Document, clients: [RemoteIdentifier])] {
        try await together(documents) { [backend, hierarchy] document in
            let hierarchy = hierarchy.document(document)
            let hooks = backend.wholeStoreDownloadHooks
            async let info = backend.smallFile(at: hierarchy.documentInfo)
            async let clients = backend.list(hierarchy.syncChanges)
            let stores = try await Self.stores(hooks, hierarchy, seal)
            let bytes = try await info
            let path = hierarchy.documentInfo
            let known = bytes.flatMap {
                try? DocumentInfo(seal.open($0, as: .documentInfo(document), at: path), at: path)
            }
            return (
                ApplicationStatus.Document(
                    document: document,
                    description: known?.description ?? "",
                    userInfo: known?.userInfo ?? [:],
                    stores: stores
                ),
                try await clients.directoryIdentifiers
            )
        }
    }

    private static func stores(
        _ hooks: any WholeStoreDownloadHooks,
        _ hierarchy: DocumentHierarchy,
        _ seal: ApplicationSeal
    ) async throws -> [ApplicationStatus.Store] {
        let published = try await PublishedStores.list(hooks, hierarchy)
        let newest = Dictionary(grouping: published.published, by: \.client)
            .compactMap { $0.value.max { $0.generation < $1.generation } }
        let (manifests, _) = try await PublishedStores.readManifests(newest, hooks, hierarchy, seal)
        let modern = manifests.map {
            ApplicationStatus.Store(
                client: $0.name.client,
                generation: $0.name.generation,
                bytes: $0[.store]?.size ?? 0,
                modified: $0.created
            )
        }
        guard !seal.isEncrypted else { return modern.sorted { $0.client < $1.client } }
        let legacy = published.legacyClients.compactMap { client in
            published.fixedNames[client]?[.store].map {
                ApplicationStatus.Store(
                    client: client,
                    generation: 0,
                    bytes: $0.size,
                    modified: $0.modified ?? .distantPast
                )
            }
        }
        return (modern + legacy).sorted { $0.client < $1.client }
    }
}
