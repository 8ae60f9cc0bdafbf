import Foundation
import SyncCryptography
import ThreadSupport

/// A keychain's key as stored in its file, wrapped by the lock.
struct WrappedKey: Sendable {
    /// Distinguishes the key from former keys: every change of the lock creates another key.
    let epoch: UUID
    let kind: KeychainLock.Kind
    let bytes: [UInt8]

    /// Binds a passphrase's wrapping to keychains, in the field for an application's registration.
    private static let purpose = Array("storesync keychain".utf8)
    private static let context = SealedContext(application: "", role: "keychain key")

    /// Creates a key and wraps it.
    static func make(for lock: KeychainLock, executor: (any TaskExecutor)?) async throws -> (WrappedKey, EpochKey) {
        let key = EpochKey(master: MasterKey(), epoch: UUID())
        let bytes: [UInt8]
        switch lock.content {
        case .deviceSecret(let directory):
            let secret = try await runBlocking(on: executor) { try DeviceSecret(in: directory).readOrMake() }
            bytes = try wrapping(secret, key.epoch).seal(key.master.bytes, as: context)
        case .passphrase(let passphrase, let parameters):
            do {
                bytes = try await KeyFile.create(
                    wrapping: key.master,
                    with: passphrase,
                    epoch: key.epoch,
                    registration: purpose,
                    parameters: parameters,
                    executor: executor
                ).bytes
            } catch let error as CryptographyError {
                throw KeychainError(
                    .unavailable,
                    "The passphrase can't be hashed with these parameters. \(error.message)",
                    cause: error
                )
            }
        }
        return (WrappedKey(epoch: key.epoch, kind: lock.kind, bytes: bytes), key)
    }

    /// Unwraps the key.
    func open(with lock: KeychainLock, executor: (any TaskExecutor)?) async throws -> EpochKey {
        let master: MasterKey
        switch (kind, lock.content) {
        case (.deviceSecret, .deviceSecret(let directory)):
            let secret = DeviceSecret(in: directory)
            master = try unwrap(with: try await runBlocking(on: executor) { try secret.read() }, at: secret.path)
        case (.passphrase, .passphrase(let passphrase, _)):
            master = try await unwrap(with: passphrase, executor)
        case (.deviceSecret, .passphrase):
            throw KeychainError(
                .wrongLock,
                "The keychain opens by a device secret, not by a passphrase. Give no passphrase."
            )
        case (.passphrase, .deviceSecret):
            throw KeychainError(
                .wrongLock,
                "The keychain opens by a passphrase, not by a device secret. Give the passphrase."
            )
        }
        return EpochKey(master: master, epoch: epoch)
    }

    private static func wrapping(_ secret: SecretBytes, _ epoch: UUID) throws -> EpochKey {
        EpochKey(master: try MasterKey(secret), epoch: epoch)
    }

    private func unwrap(with secret: SecretBytes, at path: String) throws -> MasterKey {
        do {
            let key = try Self.wrapping(secret, epoch)
            return try MasterKey(try key.openSecret(bytes, as: Self.context, upTo: MasterKey.byteCount))
        } catch let error as CryptographyError {
            throw KeychainError(
                .wrongLock,
                """
                The device secret \(path) doesn't open this keychain: it's another one, or the keychain's file is damaged. Put \
                both back from the same backup.
                """,
                cause: error
            )
        }
    }

    private func unwrap(with passphrase: Password, _ executor: (any TaskExecutor)?) async throws -> MasterKey {
        do {
            let file = try KeyFile(bytes)
            guard file.epoch == epoch else { throw CryptographyError(.tampered, "The key file is another keychain's.") }
            let master = try await file.open(with: passphrase, executor: executor)
            guard file.binds(registration: Self.purpose) else {
                throw CryptographyError(.tampered, "The key file is an application's.")
            }
            return master
        } catch let error as CryptographyError {
            switch error.code {
            case .wrongPassword:
                throw KeychainError(
                    .wrongPassphrase,
                    "The passphrase doesn't open this keychain. Try again."
                )
            case .outOfMemory:
                throw KeychainError(
                    .unavailable,
                    "There isn't enough memory to check the passphrase. Try again.",
                    cause: error
                )
            case .insufficientMemory:
                throw KeychainError(
                    .unavailable,
                    "Checking the passphrase takes more memory than this machine has to give. Open the keychain on another machine.",
                    cause: error
                )
            case .costlyParameters: throw KeychainError(.unavailable, error.message, cause: error)
            default:
                throw KeychainError(
                    .tampered,
                    "The keychain's wrapped key was damaged or tampered with. Put the keychain's file back from a backup.",
                    cause: error
                )
            }
        }
    }
}
