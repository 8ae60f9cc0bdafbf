import ContentDigests
import Foundation
import Keychain
import ThreadSupport

/// The keychains of applications: `keychains/<digest>.sqlite`, one for each application on each remote.
///
/// They are separate, since all synchronizable items of a keychain are synchronized. The secret that opens the keychain
/// with the master keys opens them too.
extension StateDirectory {
    /// Opens an application's keychain, and creates it if it doesn't exist.
    ///
    /// - Parameters:
    ///   - key: The application.
    ///   - entitlements: The caller's access groups; `nil` for none, which is enough to merge.
    ///   - executor: Runs blocking file operations.
    /// - Returns: The keychain, unlocked.
    /// - Throws: `KeychainError`, ``StoreSyncError``.
    func keychain(
        for key: ApplicationKey,
        entitlements: Entitlements?,
        on executor: (any TaskExecutor)?
    ) async throws -> FileKeychain {
        let file = applicationKeychainURL(for: key)
        try await runBlocking(on: executor) { try LocalFile.createDirectory(at: file.deletingLastPathComponent()) }
        let keychain = try await FileKeychain(
            at: file,
            entitlements: entitlements ?? Entitlements(applicationIdentifier: nil),
            executor: executor,
            options: FileKeychain.Options(steps: steps, hasFixedLock: true)
        )
        try await keychain.unlock(with: .deviceSecret(in: url))
        return keychain
    }

    /// Whether an application's keychain has, or had, items that other devices have to know.
    func hasSynchronizableItems(for key: ApplicationKey, on executor: (any TaskExecutor)?) async throws -> Bool {
        guard try hasKeychain(for: key) else { return false }
        return try await keychain(for: key, entitlements: nil, on: executor).isSynchronized()
    }

    /// Empties an application's keychain on this device, because the application was replaced or this client was removed.
    ///
    /// Deletions that the other clients don't know of are forgotten, too.
    ///
    /// A keychain whose lock is lost is removed, since its items couldn't be read any more.
    func blitzKeychain(of key: ApplicationKey, on executor: (any TaskExecutor)?) async throws {
        guard try hasKeychain(for: key) else { return }
        do {
            try await keychain(for: key, entitlements: nil, on: executor).blitzAll()
        } catch let error as KeychainError where [.wrongLock, .deviceSecretMissing].contains(error.code) {
            let file = applicationKeychainURL(for: key)
            // The keychain last: while it's there, an interrupted removal is repeated.
            for suffix in LocalStore.sideSuffixes + [""] {
                try? FileManager.default.removeItem(atPath: file.path + suffix)
            }
        }
    }

    private func hasKeychain(for key: ApplicationKey) throws -> Bool {
        try LocalFile.exists(applicationKeychainURL(for: key).path)
    }

    /// The name of the directory with the keychains of applications.
    static let keychainsName = "keychains"

    private func applicationKeychainURL(for key: ApplicationKey) -> URL {
        // Identities may contain characters that file names can't.
        url.appending(path: Self.keychainsName).appending(path: "\(key.digest).sqlite")
    }
}

extension ApplicationKey {
    /// A digest of the remote's identity and the application, in hexadecimal.
    var digest: String { ContentRoot.of([remote, application].joined(separator: "\0").utf8).description }
}
