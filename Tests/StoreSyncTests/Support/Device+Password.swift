import Operations
import RemoteStorage
import SyncCryptography

@testable import StoreSync

extension Device {
    /// Changes the password of the application, with a cheap hash, and returns how many passwords there have been.
    func changePassword(to text: String, through backend: (any RemoteBackend)? = nil) async throws -> Int {
        let change = PasswordChangeOperation(
            to: try Password.cheap(text),
            of: application,
            parameters: .interactive,
            backend: backend ?? self.backend,
            state: state,
            delegate: { [password] _ in password.map { .encrypted($0) } ?? .unencrypted }
        )
        return try await supervisor.add(change).value
    }
}
