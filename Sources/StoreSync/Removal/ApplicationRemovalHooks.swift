public import RemoteStorage
import ThreadSupport

/// The remote steps of ``ApplicationRemovalOperation``.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol ApplicationRemovalHooks: SyncHooks {
    /// The content of an application: all but its documents, its encryption files and its registration.
    func listApplicationContent(_ hierarchy: ApplicationHierarchy) async throws -> [RemotePath]

    /// Removes content of an application.
    func removeApplicationContent(_ paths: [RemotePath]) async throws

    /// Removes the salt file, the file that passwords are tested with, and the proofs of successors.
    func removeEncryptionFiles(_ hierarchy: ApplicationHierarchy) async throws

    /// Removes what is left of an application: its registration and its directories.
    func removeApplicationDirectory(_ hierarchy: ApplicationHierarchy) async throws
}

extension ApplicationRemovalHooks {
    /// Lists the application's directory and the directory of information.
    public func listApplicationContent(_ hierarchy: ApplicationHierarchy) async throws -> [RemotePath] {
        async let top = backend.list(hierarchy.root)
        async let information = backend.list(hierarchy.information)
        let paths =
            try await (top ?? []).map { try hierarchy.root.appending($0.name) }
            + (information ?? []).map { try hierarchy.information.appending($0.name) }
        let kept = [hierarchy.documents, hierarchy.encryption, hierarchy.information, hierarchy.registration]
        return paths.filter { !kept.contains($0) }
    }

    /// Removes the items concurrently.
    public func removeApplicationContent(_ paths: [RemotePath]) async throws {
        try await paths.concurrentMap { [backend] in try await backend.remove($0) }
    }

    /// Removes the directory.
    public func removeEncryptionFiles(_ hierarchy: ApplicationHierarchy) async throws {
        try await backend.remove(hierarchy.encryption)
    }

    /// Removes the directory.
    public func removeApplicationDirectory(_ hierarchy: ApplicationHierarchy) async throws {
        try await backend.remove(hierarchy.root)
    }
}
