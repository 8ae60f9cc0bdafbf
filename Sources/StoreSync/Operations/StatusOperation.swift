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
            let unlocking = ApplicationUnlocking(hierarchy: hierarchy, key: key, state: state, delegate: delegate)
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

    /// A document as its info and the lists of its directories show it.
    private struct Listed: Sendable {
        var document: RemoteIdentifier
        var info: DocumentInfo?
        var clients: [RemoteIdentifier]
        var published: PublishedStores
    }

    private func documents(
        _ documents: [RemoteIdentifier],
        _ seal: ApplicationSeal
    ) async throws -> [(document: ApplicationStatus.Document, clients: [RemoteIdentifier])] {
        let hooks = backend.wholeStoreDownloadHooks
        let listed = try await together(documents) { [backend, hierarchy] document in
            let hierarchy = hierarchy.document(document)
            async let info = backend.smallFile(at: hierarchy.documentInfo)
            async let clients = backend.list(hierarchy.syncChanges)
            let published = try await PublishedStores.list(hooks, hierarchy)
            let path = hierarchy.documentInfo
            return Listed(
                document: document,
                info: try await info.flatMap {
                    try? DocumentInfo(seal.open($0, as: .documentInfo(document), at: path), at: path)
                },
                clients: try await clients.directoryIdentifiers,
                published: published
            )
        }
        let stores = try await stores(listed, hooks, seal)
        return listed.map { listed in
            let document = ApplicationStatus.Document(
                document: listed.document,
                description: listed.info?.description ?? "",
                userInfo: listed.info?.userInfo ?? [:],
                stores: stores[listed.document, default: []].sorted { $0.client < $1.client }
            )
            return (document, listed.clients)
        }
    }

    /// The newest store of each client, of all documents together: however many there are, few manifests are under way.
    private func stores(
        _ listed: [Listed],
        _ hooks: any WholeStoreDownloadHooks,
        _ seal: ApplicationSeal
    ) async throws -> [RemoteIdentifier: [ApplicationStatus.Store]] {
        let newest = listed.flatMap { listed in listed.published.newest.map { (listed, $0) } }
        let modern = try await together(newest) { [hierarchy] listed, name in
            let identity = DocumentIdentity(document: listed.document, integrityKey: listed.info?.integrityKey ?? "")
            let hierarchy = hierarchy.document(listed.document)
            let found = try await PublishedStores.readManifests([name], hooks, hierarchy, seal, identity)
            return (listed.document, found.manifests.first.map(ApplicationStatus.Store.init))
        }
        var stores = Dictionary(grouping: modern, by: \.0).mapValues { $0.compactMap(\.1) }
        guard !seal.isEncrypted else { return stores }
        for listed in listed { stores[listed.document, default: []] += Self.legacyStores(listed.published) }
        return stores
    }

    private static func legacyStores(_ published: PublishedStores) -> [ApplicationStatus.Store] {
        published.legacyClients.compactMap { client in
            published.fixedNames[client]?[.store].map {
                ApplicationStatus.Store(
                    client: client,
                    generation: 0,
                    bytes: $0.size,
                    modified: $0.modified ?? .distantPast
                )
            }
        }
    }
}

extension ApplicationStatus.Store {
    fileprivate init(_ manifest: StoreManifest) {
        self.init(
            client: manifest.name.client,
            generation: manifest.name.generation,
            bytes: manifest[.store]?.size ?? 0,
            modified: manifest.created
        )
    }
}
