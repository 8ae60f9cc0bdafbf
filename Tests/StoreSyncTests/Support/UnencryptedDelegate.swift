import RemoteStorage
import StoreSync

/// A delegate whose applications aren't encrypted.
@MainActor final class UnencryptedDelegate: ApplicationSyncDelegate {
    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision { .unencrypted }
}
