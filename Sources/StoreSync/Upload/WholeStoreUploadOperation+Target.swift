import Foundation
import Logging
import Operations
import RemoteStorage

/// Inspects the document on the remote before a push: the uploads, and what this device remembers of them.
extension WholeStoreUploadOperation {
    /// Returns the document on the remote, compared with this device's memory.
    func target(for store: LocalStore, _ context: OperationContext) async throws -> UploadTarget {
        // A store that was moved is recorded under its new path, before anything is looked up by path.
        _ = try await context.blocking { [state, key] in try state.locate(store, document: key) }
        return try await comparing(with: { try await rollbackMemory(context) }) { memory in
            try await self.target(remembering: memory, context)
        }
    }

    private func rollbackMemory(_ context: OperationContext) async throws -> RollbackMemory {
        try await context.blocking { [state, key, document] in
            try state.rollbackMemory(for: key, document.integrityKey)
        }
    }

    private func target(
        remembering memory: RollbackMemory,
        _ context: OperationContext
    ) async throws -> UploadTarget {
        let expected = memory.clients.union([document.application.client])
        async let listed = catalog.read(expecting: expected)
        let base = try await request.isWhole ? nil : deltaBase(context)
        let published = try await makingRoom(in: try await listed, expecting: expected, context)
        return UploadTarget(
            client: try await client(published, context),
            published: published,
            base: base,
            missing: try refuseRollback(published, memory),
            opened: memory.newest,
            incomplete: try await context.blocking { [state, key] in try state.incompletePush(for: key) }
        )
    }

    // MARK: The client

    /// Returns this client, or a new one if another device has published under its identifier.
    private func client(_ published: PublishedStores, _ context: OperationContext) async throws -> RemoteIdentifier {
        let client = document.application.client
        let own = published.manifests.filter { $0.name.client == client }
        let known = try await context.blocking { [state, key] in
            try state.adoptInterruptedUploads(own, document: key)
            return try state.uploads(for: key, .named(own.map(\.name)))
        }
        let isAlone = own.allSatisfy { manifest in
            known.contains { $0.name == manifest.name && manifest.hasContent(of: $0) }
        }
        if isAlone { return client }
        context.logger.notice("a copy of this device uses its client identifier, too: continuing as a new client")
        return try await newClient(after: client, context)
    }

    private func newClient(
        after client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> RemoteIdentifier {
        let application = document.application
        let registration = backend.applicationRegistrationHooks
        let former = try await registration.fetchDeviceInfo(of: client, application.hierarchy)
            .flatMap { try? seal.deviceInfo($0, of: client, application.hierarchy) }
        let new = try await context.blocking { [state, key] in
            let lock = try state.lock(.application(key.application), .exclusive, by: context.name)
            defer { lock.release() }
            // A push of another document may have replaced the identifier a moment before.
            if let other = try state.peekClientIdentifier(for: key.application), other != client.rawValue {
                return try RemoteIdentifier(other)
            }
            return try RemoteIdentifier(state.replaceClientIdentifier(for: key.application))
        }
        let info = DeviceInfo(
            client: new.rawValue,
            description: application.clientDescription,
            userInfo: former?.userInfo ?? [:],
            epoch: former?.epoch
        )
        let sealed = seal.seal(info.xml, as: .deviceInfo(new))
        try await registration.createClientDeviceDirectory(new, application.hierarchy)
        try await registration.saveDeviceInfo(sealed, of: new, application.hierarchy)
        try await backend.documentRegistrationHooks.createClientDirectories(new, hierarchy)
        return new
    }

    /// Refuses to push if an upload is missing that this device knows, or that the writer of a head saw.
    ///
    /// A whole copy is pushed nevertheless, and so is a baseline: the document's log says which edits it contains. An upload
    /// whose manifest exists and doesn't open is damaged, not missing.
    ///
    /// Returns the missing uploads that this device knows.
    private func refuseRollback(_ published: PublishedStores, _ memory: RollbackMemory) throws -> [UploadName] {
        let missing = memory.missing(from: published.names, published.manifests)
        let witnessed = Lineage.witnessed(by: published.manifests)
        guard let newest = witnessed.union(missing).max(), !request.isWhole, request.baseline == nil else {
            return missing
        }
        throw StoreSyncError(
            .rolledBack,
            """
            \(newest.atStart) of \(document.document) is missing on the remote, and no other upload includes it. \
            \(Lineage.reasons(forMissing: newest, among: published.manifests)) Nothing was published. Try again later; \
            if it is lost, push with --whole.
            """
        )
    }
}
