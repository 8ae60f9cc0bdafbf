import Foundation
public import Operations
public import RemoteStorage
import SyncCryptography
import ThreadSupport

/// Lists an application's clients, documents and stores, without registering or changing anything.
public actor StatusOperation: Operation {
    private let access: ApplicationAccess
    private let applicationHooks: any ApplicationRegistrationHooks
    private let documentHooks: any DocumentRegistrationHooks

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - application: The application.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    ///   - delegate: Is asked for the password of an encrypted application whose keys this device doesn't have.
    public init(
        _ application: RemoteIdentifier,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: ApplicationRegistrationOperation.Delegate? = nil
    ) {
        access = ApplicationAccess(application, backend: backend, state: state, delegate: delegate)
        applicationHooks = backend.applicationRegistrationHooks
        documentHooks = backend.documentRegistrationHooks
    }

    private nonisolated var hierarchy: ApplicationHierarchy { access.hierarchy }
    private nonisolated var state: StateDirectory { access.state }

    /// Lists everything in four rounds of requests, however many documents there are.
    ///
    /// - Throws: ``StoreSyncError``, among others `applicationMissing`, `passwordRequired` and `remoteUnavailable`;
    ///   `CancellationError`.
    public func main(_ context: OperationContext) async throws -> ApplicationStatus {
        try await translatingErrors {
            // Before the listing: a push of this device may create a document meanwhile.
            let (own, known) = try await context.blocking { [self] in
                let documents = try state.documents(of: access.key)
                return (
                    try state.peekClientIdentifier(for: access.key),
                    try documents.map { ($0, try state.integrityKey(for: access.key($0)) ?? "") }
                )
            }
            async let exists = applicationHooks.applicationDirectoryExists(hierarchy)
            async let encryption = access.unlocking.fetch(context)
            async let clients = applicationHooks.listClients(hierarchy)
            async let documents = documentHooks.listDocuments(hierarchy)
            guard try await exists else { throw access.missing }
            let (seal, encrypted) = try await open(encryption, context)
            let (clientNames, documentNames) = try await (clients, documents)
            let reader = HierarchyReader(hierarchy: hierarchy, seal: seal, backend: access.backend)
            async let clientInfos = reader.clients(clientNames)
            async let lost = lostDocuments(among: known.filter { !documentNames.contains($0.0) }, seal)
            let listed = try await self.documents(documentNames, of: clientNames, reader, context)
            let infos = try await clientInfos
            return ApplicationStatus(
                application: access.application,
                client: own,
                encryption: encrypted,
                clients: infos.map { client in
                    ApplicationStatus.Client(
                        client: client.client,
                        description: client.info.value?.description ?? "",
                        userInfo: client.info.value?.userInfo ?? [:],
                        documents: listed.filter { $0.clients.contains(client.client) }.compactMap(
                            \.document?.document
                        ),
                        lastSync: listed.compactMap { $0.document?.lastSyncs[client.client] }.max()
                    )
                },
                documents: listed.compactMap(\.document),
                unreadable: (infos.compactMap(\.info.unreadable) + listed.flatMap(\.unreadable) + (try await lost))
                    .sorted { $0.path < $1.path }
            )
        }
    }

    private func open(
        _ remembered: ApplicationUnlocking.Remembered,
        _ context: OperationContext
    ) async throws -> (ApplicationSeal, ApplicationStatus.Encryption?) {
        let unlocking = access.unlocking
        guard let sealed = try await unlocking.inspect(remembered, context) else {
            return (ApplicationSeal(application: access.application, key: nil), nil)
        }
        // Determined before the application is opened, which asks for a password if there are no keys.
        let hasKeys = try await unlocking.keptKey(of: sealed.info.epoch, context) != nil
        let unlocked = try await unlocking.unlock(sealed, context)
        let encryption = ApplicationStatus.Encryption(
            suite: sealed.info.encryption,
            passwordParameters: unlocked.keyFile.parameters,
            passwordVersion: Int(unlocked.keyFile.passwordVersion),
            epoch: sealed.info.epoch,
            hasKeys: hasKeys
        )
        return (unlocked.seal, encryption)
    }

    /// A document as its info and the lists of its directories show it.
    private struct Listed: Sendable {
        var entry: HierarchyReader.Document
        var published: PublishedStores
        /// What this device remembered before the listing.
        var memory: Memory

        var document: RemoteIdentifier { entry.document }
        var info: Reading<DocumentInfo> { entry.info }
    }

    /// What this device remembers of a document.
    private struct Memory: Sendable {
        var keys: IntegrityMemory
        var uploads: RollbackMemory
    }

    /// A document's part of the result; without the document itself if it was deleted and something of it is left.
    private struct DocumentPart: Sendable {
        var document: ApplicationStatus.Document?
        var clients: [RemoteIdentifier] = []
        var unreadable: [ApplicationStatus.Unreadable]
    }

    private func documents(
        _ documents: [RemoteIdentifier],
        of clients: [RemoteIdentifier],
        _ reader: HierarchyReader,
        _ context: OperationContext
    ) async throws -> [DocumentPart] {
        let hooks = access.backend.wholeStoreDownloadHooks
        // Before the listing: a push or a pull of this device may end meanwhile.
        let memories = try await context.blocking { [self] in
            try documents.map { document in
                let keys = try state.integrityMemory(for: access.key(document))
                return Memory(keys: keys, uploads: try uploads(of: document, keys))
            }
        }
        async let published = documents.concurrentMap { [hierarchy] in
            try await PublishedStores.list(hooks, hierarchy.document($0))
        }
        let entries = try await documents.concurrentMap { try await reader.document($0, of: clients) }
        async let recentSyncs = reader.recentSyncs(of: entries)
        async let removals = reader.interruptedRemovals(among: entries)
        async let synchronizing = entries.concurrentMap { try await reader.synchronizingClients(of: $0) }
        let listed = zip(zip(entries, try await published), memories).map {
            Listed(entry: $0.0, published: $0.1, memory: $1)
        }
        let manifests = try await manifests(listed, hooks, reader.seal)
        let (interrupted, times) = try await (removals, recentSyncs)
        let synchronized = Dictionary(zip(documents, try await synchronizing)) { first, _ in first }
        let parts = try await context.blocking { [self] in
            try listed.map { listed in
                if let problem = interrupted[listed.document] { return DocumentPart(unreadable: [problem]) }
                var listed = listed
                listed.memory.uploads.formIntersection(try uploads(of: listed.document, listed.memory.keys))
                var part = documentStatus(listed, manifests[listed.document, default: []], reader.seal)
                part.document?.lastSyncs = times.times[listed.document] ?? [:]
                part.document?.synchronizing = synchronized[listed.document] ?? []
                return part
            }
        }
        return parts + [DocumentPart(unreadable: times.unreadable)]
    }

    /// The uploads that this device remembers of a document with which it has registered.
    private nonisolated func uploads(
        of document: RemoteIdentifier,
        _ keys: IntegrityMemory
    ) throws -> RollbackMemory {
        try keys.current.map { try state.rollbackMemory(for: access.key(document), $0) } ?? RollbackMemory()
    }

    private nonisolated func documentStatus(
        _ listed: Listed,
        _ found: [Reading<StoreManifest>],
        _ seal: ApplicationSeal
    ) -> DocumentPart {
        let manifests = found.compactMap(\.value)
        // Copies of a store on one device may have diverged: then a client has other heads than its newest upload.
        let heads = Set(Lineage.heads(of: manifests).map(\.name))
        let newest = Dictionary(grouping: manifests, by: \.name.client).values.flatMap { own in
            let last = own.map(\.name).max()
            return own.filter { $0.name == last || heads.contains($0.name) }
        }
        let legacy = seal.isEncrypted ? [] : Self.legacyStores(listed.published)
        let document = ApplicationStatus.Document(
            document: listed.document,
            description: listed.info.value?.description ?? "",
            userInfo: listed.info.value?.userInfo ?? [:],
            stores: (newest.map(ApplicationStatus.Store.init) + legacy)
                .sorted { ($0.client, $0.generation) < ($1.client, $1.generation) }
        )
        let info = [listed.info.unreadable, refused(listed, isEncrypted: seal.isEncrypted)].compactMap(\.self)
        let unreadable = found.compactMap(\.unreadable) + info
        return DocumentPart(
            document: document,
            clients: listed.entry.clients,
            unreadable: unreadable + missing(from: listed, manifests)
        )
    }

    /// The documents that this device knows and that are missing, without an authentic note on their deletion.
    private func lostDocuments(
        among missing: [(RemoteIdentifier, String)],
        _ seal: ApplicationSeal
    ) async throws -> [ApplicationStatus.Unreadable] {
        let lost = try await missing.concurrentMap {
            [documentHooks, hierarchy] document, integrityKey -> RemoteIdentifier? in
            let note = try await documentHooks.fetchDeletedDocumentNote(document, hierarchy)
            return seal.saysDeleted(note, of: document, integrityKey: integrityKey, hierarchy) ? nil : document
        }
        return lost.compactMap(\.self).map { .init(.documentInfoMissing, at: hierarchy.document($0).documentInfo) }
    }

    /// Returns the problem with the info of a document that this device knows, if there is one.
    private nonisolated func refused(
        _ listed: Listed,
        isEncrypted: Bool
    ) -> ApplicationStatus.Unreadable? {
        let (keys, path) = (listed.memory.keys, hierarchy.document(listed.document).documentInfo)
        guard keys.current != nil, listed.info.unreadable == nil else { return nil }
        guard let info = listed.info.value else { return .init(.documentInfoMissing, at: path) }
        guard let current = info.integrityKey, keys.isStranger(info, current, isEncrypted: isEncrypted) else {
            return nil
        }
        return .init(.documentInfoPutBack, at: path)
    }

    /// The missing uploads of a document that this device knows.
    private nonisolated func missing(
        from listed: Listed,
        _ manifests: [StoreManifest]
    ) -> [ApplicationStatus.Unreadable] {
        // The uploads of a former document went with it.
        guard listed.info.value?.integrityKey.map({ $0 == listed.memory.keys.current }) ?? true else { return [] }
        let hierarchy = hierarchy.document(listed.document)
        return listed.memory.uploads.missing(from: listed.published.names, manifests).map { name in
            let error = StoreSyncError(
                .rolledBack,
                """
                This device has seen \(name), which is missing now. \(Lineage.reasons(forMissing: name, among: manifests))
                """
            )
            return ApplicationStatus.Unreadable(error, at: hierarchy.manifest(name))
        }
    }

    /// Reads the newest manifest of each client and the manifests that this device has opened, of all documents.
    ///
    /// A few manifests are read at a time.
    private func manifests(
        _ listed: [Listed],
        _ hooks: any WholeStoreDownloadHooks,
        _ seal: ApplicationSeal
    ) async throws -> [RemoteIdentifier: [Reading<StoreManifest>]] {
        let wanted = listed.flatMap { listed in
            let known = listed.published.names.intersection(listed.memory.uploads.newest)
            let integrityKey = listed.info.value?.integrityKey ?? listed.memory.keys.current ?? ""
            return known.union(listed.published.newest).map { (listed, $0, integrityKey) }
        }
        let found = try await wanted.concurrentMap { [hierarchy] listed, name, integrityKey in
            let identity = DocumentIdentity(document: listed.document, integrityKey: integrityKey)
            let hierarchy = hierarchy.document(listed.document)
            let catalog = UploadCatalog(hooks: hooks, hierarchy: hierarchy, seal: seal, identity: identity)
            let found = try await catalog.manifests(of: [name])
            let reading = Reading(
                value: found.manifests.first,
                unreadable: found.unreadable.first.map { .init($0.error, at: hierarchy.manifest($0.name)) }
            )
            return (listed.document, reading)
        }
        return Dictionary(grouping: found, by: \.0).mapValues { $0.map(\.1) }
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
