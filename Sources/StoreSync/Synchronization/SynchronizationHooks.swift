public import RemoteStorage

/// The remote steps of ``SynchronizationOperation``.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol SynchronizationHooks: SyncHooks {
    /// Reads where the document's change sets begin; `nil` if no device has synchronized it yet.
    func fetchSyncOrigin(_ hierarchy: DocumentHierarchy) async throws -> [UInt8]?

    /// Saves where the document's change sets begin, unless that is decided already.
    ///
    /// - Returns: Whether the remote now holds these bytes.
    func createSyncOrigin(_ bytes: [UInt8], _ hierarchy: DocumentHierarchy) async throws -> Bool

    /// The names of the clients' heads, in any order; other names may be among them.
    func listSyncHeads(_ hierarchy: DocumentHierarchy) async throws -> [String]

    /// The files with older change sets of a client, in any order; other files may be among them.
    func listSyncSegments(of client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) async throws -> [RemoteItem]

    /// Reads a head, or a file with older change sets.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - limit: The maximum number of bytes, so that an untrusted storage can't fill the memory.
    /// - Returns: The file's bytes; `nil` if it doesn't exist (any more).
    /// - Throws: `RemoteError` with `wrongLength` if the file has more bytes.
    func fetchSyncFile(at path: RemotePath, upTo limit: Int) async throws -> [UInt8]?

    /// Creates a head, or a file with older change sets, under a name that was never used before.
    ///
    /// - Returns: Whether the remote now holds these bytes.
    func createSyncFile(_ bytes: [UInt8], at path: RemotePath) async throws -> Bool

    /// Removes a file of this client that no head names any more, or a former head.
    func removeSyncFile(at path: RemotePath) async throws
}

extension SynchronizationHooks {
    /// Reads the file.
    public func fetchSyncOrigin(_ hierarchy: DocumentHierarchy) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.syncOrigin)
    }

    /// Creates the file, or checks the existing one.
    public func createSyncOrigin(_ bytes: [UInt8], _ hierarchy: DocumentHierarchy) async throws -> Bool {
        if try await backend.writeIfAbsent(bytes, to: hierarchy.syncOrigin) { return true }
        return try await fetchSyncOrigin(hierarchy) == bytes
    }

    /// Lists the directory.
    public func listSyncHeads(_ hierarchy: DocumentHierarchy) async throws -> [String] {
        (try await backend.list(hierarchy.recentSyncs) ?? []).filter { $0.kind == .file }.map(\.name)
    }

    /// Lists the directory.
    public func listSyncSegments(
        of client: RemoteIdentifier,
        _ hierarchy: DocumentHierarchy
    ) async throws -> [RemoteItem] {
        (try await backend.list(hierarchy.syncChanges(client)) ?? []).filter { $0.kind == .file }
    }

    /// Reads the file.
    public func fetchSyncFile(at path: RemotePath, upTo limit: Int) async throws -> [UInt8]? {
        try await backend.read(path)?.bytes(upTo: limit)
    }

    /// Creates the file, or checks the existing one.
    public func createSyncFile(_ bytes: [UInt8], at path: RemotePath) async throws -> Bool {
        if try await backend.writeIfAbsent(bytes, to: path) { return true }
        return try await fetchSyncFile(at: path, upTo: SyncFileName.maximumBytes(at: path)) == bytes
    }

    /// Removes the file.
    public func removeSyncFile(at path: RemotePath) async throws { try await backend.remove(path) }
}
