import ContentDigests
import RemoteStorage
import ThreadSupport

/// A note on a client's removal, as it was read.
struct ClientNote: Hashable, Sendable {
    let name: ClientNoteName
    let content: [UInt8]

    /// Digest of the content, in hexadecimal.
    var digest: String { ContentRoot.of(content).description }

    /// Reads all notes on one client: in one round of requests if there are none, else in two.
    static func read(
        on client: RemoteIdentifier,
        in directory: RemotePath,
        _ hooks: any ClientNoteHooks
    ) async throws -> [ClientNote] {
        let names = try await hooks.listClientNotes(in: directory).compactMap { ClientNoteName($0, on: client) }
        return try await names.concurrentMap { name in
            let content = try await hooks.fetchClientNote(at: name.path(in: directory))
            return content.map { ClientNote(name: name, content: $0) }
        }.compactMap(\.self)
    }
}

/// The notes on clients that were removed from an application or from a document.
struct ClientNotes: Sendable {
    /// What the clients were removed from.
    enum Subject: Sendable {
        case application(ApplicationHierarchy)
        case document(DocumentHierarchy, DocumentIdentity)

        var directory: RemotePath {
            switch self {
            case .application(let hierarchy): hierarchy.deletedClients
            case .document(let hierarchy, _): hierarchy.deletedClients
            }
        }

        /// The role that a note is sealed for.
        func role(_ name: ClientNoteName) -> ApplicationSeal.Role {
            switch self {
            case .application: .removedClient(name)
            case .document(_, let identity): .deletedClient(name, of: identity)
            }
        }
    }

    let subject: Subject
    let seal: ApplicationSeal
    let hooks: any ClientNoteHooks

    /// Why a note is ignored; `nil` if it counts.
    ///
    /// Where nothing is sealed, TICoreDataSync's own notes count whatever their content.
    func warning(about note: ClientNote) -> String? {
        let path = "\(subject.directory)/\(note.name.fileName)"
        do {
            let path = try note.name.path(in: subject.directory)
            let content = try seal.open(note.content, as: subject.role(note.name), at: path)
            guard !seal.isEncrypted, note.name.remover != nil else { return nil }
            let info = try DeviceInfo(content, at: path)
            return info.client == note.name.client.rawValue ? nil : "\(path) on the remote is about \(info.client)."
        } catch let error as StoreSyncError {
            return "\(path) on the remote isn't authentic, so it is ignored: \(error.message)"
        } catch {
            return "\(path) on the remote is ignored. \(StoreSyncError.sentence(about: error))"
        }
    }

    /// The notes on a client that count, and warnings about the others.
    func authentic(_ notes: [ClientNote]) -> (notes: [ClientNote], warnings: [String]) {
        let readings = notes.map { ($0, warning(about: $0)) }
        return (readings.filter { $0.1 == nil }.map(\.0), readings.compactMap(\.1))
    }

    /// Reads the notes on a client, and separates the notes that count from warnings about the others.
    func read(on client: RemoteIdentifier) async throws -> (notes: [ClientNote], warnings: [String]) {
        try await authentic(ClientNote.read(on: client, in: subject.directory, hooks))
    }

    /// The clients that were removed, according to notes that count.
    ///
    /// - Parameters:
    ///   - clients: The clients.
    ///   - names: The names of all notes; `nil` to list them.
    /// - Returns: The clients, with warnings about notes that don't count.
    /// - Throws: What the backend throws.
    func removed(among clients: Set<RemoteIdentifier>, named names: [String]? = nil) async throws -> RemovedClients {
        let names = if let names { names } else { try await hooks.listClientNotes(in: subject.directory) }
        // Each name is parsed once, whatever the number of clients: the storage may hold many names.
        let readings = names.flatMap { ClientNoteName.readings(of: $0).filter { clients.contains($0.client) } }
        let notes = try await readings.concurrentMap { [hooks, subject] name in
            try await hooks.fetchClientNote(at: name.path(in: subject.directory))
                .map { ClientNote(name: name, content: $0) }
        }
        let (authentic, warnings) = authentic(notes.compactMap(\.self))
        return RemovedClients(clients: Set(authentic.map(\.name.client)), warnings: warnings)
    }

    /// Saves a note on a client, unless it exists.
    ///
    /// Where nothing is sealed, TICoreDataSync's devices find a copy under the name that they know.
    func save(_ info: DeviceInfo, on client: RemoteIdentifier, by remover: RemoteIdentifier) async throws {
        try await names(on: client, by: remover).concurrentMap { [self] name in
            let path = try name.path(in: subject.directory)
            if let content = try await hooks.fetchClientNote(at: path),
                warning(about: ClientNote(name: name, content: content)) == nil
            {
                return
            }
            try await hooks.saveClientNote(seal.seal(info.xml, as: subject.role(name)), at: path)
        }
    }

    private func names(on client: RemoteIdentifier, by remover: RemoteIdentifier) -> [ClientNoteName] {
        [ClientNoteName(on: client, by: remover)] + (seal.isEncrypted ? [] : [ClientNoteName(on: client, by: nil)])
    }

    /// Removes what ``save(_:on:by:)`` has written.
    func remove(on client: RemoteIdentifier, by remover: RemoteIdentifier) async throws {
        try await names(on: client, by: remover).concurrentMap { [self] name in
            try await hooks.removeClientNote(at: name.path(in: subject.directory))
        }
    }

    /// Removes a note.
    func remove(_ note: ClientNote) async throws {
        try await hooks.removeClientNote(at: note.name.path(in: subject.directory))
    }
}
