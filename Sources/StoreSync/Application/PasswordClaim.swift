import Foundation
import RemoteStorage
import SyncCryptography

// Changing the password on storage that can create a file exclusively, but not replace a file conditionally.
extension ApplicationRegistrationHooks {
    /// Replaces the key file if it's still `former`, and no other client is replacing it.
    ///
    /// Where the storage doesn't replace files conditionally, the client first claims the new version: it creates a file that
    /// only one client can create, and that names the client.
    ///
    /// A client that dies leaves its claim. Its next change continues with it, and another client's change says what to do. The
    /// claim to a version that the key file has is in no client's way.
    ///
    /// - Parameters:
    ///   - former: The key file.
    ///   - changed: The new key file.
    ///   - client: This device's identifier, also if it isn't registered.
    ///   - hierarchy: The application.
    /// - Returns: Whether it was replaced.
    /// - Throws: ``StoreSyncError/Code/busy`` if another client has claimed the version; `RemoteError`.
    func changePassword(
        from former: [UInt8],
        to changed: KeyFile,
        by client: String,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool {
        let capabilities = try await backend.capabilities()
        guard capabilities.contains(.exclusiveCreate), !capabilities.contains(.conditionalReplace) else {
            return try await replacePasswordTest(former, with: changed.bytes, hierarchy)
        }
        let path = hierarchy.passwordClaim(changed.passwordVersion, of: changed.epoch)
        let claim = Array(client.utf8)
        let present = try await createPasswordClaim(claim, at: path)
        guard present == claim else { throw changeInProgress(path, by: present, hierarchy) }
        // If this throws, the new key file may still arrive, so the claim stays.
        let isChanged = try await replacePasswordTest(former, with: changed.bytes, hierarchy)
        try? await removePasswordClaim(at: path)
        return isChanged
    }

    private func changeInProgress(
        _ path: RemotePath,
        by claim: [UInt8]?,
        _ hierarchy: ApplicationHierarchy
    ) -> StoreSyncError {
        let client = claim.flatMap { try? RemoteIdentifier(String(decoding: $0, as: UTF8.self)) }
        return StoreSyncError(
            .busy,
            """
            \(client.map { "Client \($0)" } ?? "Another device") is changing the password of \(hierarchy.application), or was \
            interrupted while it did. Nothing was changed. Try again in a few minutes. If it fails again, change the password \
            on that device. If that device is lost, remove \(path) from the remote, and try again.
            """
        )
    }
}
