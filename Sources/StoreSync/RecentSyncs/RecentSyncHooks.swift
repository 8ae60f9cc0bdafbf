public import RemoteStorage

/// The remote steps that deal with the times of clients' last pushes, pulls and synchronizations.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol RecentSyncHooks: SyncHooks {
    /// Saves when this client last pushed, pulled or synchronized the document.
    func saveRecentSync(_ bytes: [UInt8], of client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) async throws

    /// Reads when a client last pushed, pulled or synchronized the document; `nil` if that isn't known.
    func fetchRecentSync(of client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) async throws -> [UInt8]?

    /// Removes the file of a removed client.
    func removeRecentSync(of client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) async throws
}

extension RecentSyncHooks {
    /// Writes the file.
    public func saveRecentSync(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        _ hierarchy: DocumentHierarchy
    ) async throws {
        try await backend.write(bytes, to: hierarchy.recentSync(client), when: .always)
    }

    /// Reads the file, which its client may replace meanwhile.
    public func fetchRecentSync(
        of client: RemoteIdentifier,
        _ hierarchy: DocumentHierarchy
    ) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.recentSync(client), isReplaced: true)
    }

    /// Removes the file.
    public func removeRecentSync(of client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) async throws {
        try await backend.remove(hierarchy.recentSync(client))
    }
}
