import FileSupport
package import Foundation
import SyncCryptography
import SystemPackage

/// 32 random bytes in a file that only its owner can read.
///
/// On Apple platforms they're in the system's keychain, on this device alone, and the file only names the item. So a copy of the
/// directory doesn't open the keychain on another device. A program without entitlements, which that keychain refuses, has the
/// bytes in the file.
package struct DeviceSecret {
    /// The name of the file.
    package static let name = "keychain-secret"
    private static let byteCount = 32
    /// The size of a UUID as text, by which a file with the name of an item is told from a file with the secret.
    private static let nameByteCount = 36

    private let directory: URL

    private var path: String { directory.appending(path: Self.name).path }

    package init(in directory: URL) { self.directory = directory }

    /// The item of another device's keychain that has the secret, if the directory was copied from that device.
    ///
    /// It's `nil` too if the secret can't be read for another reason, which the keychain reports when it's unlocked.
    package func itemOfAnotherDevice() -> UUID? {
        guard let file = try? openIfPresent(), let item = try? item(named: file) else { return nil }
        do throws(KeychainError) {
            return try Self.secret(of: item) == nil ? item : nil
        } catch {
            return nil
        }
    }

    /// Reads the secret, or creates it if it doesn't exist; concurrent processes get the same secret.
    func readOrMake() throws(KeychainError) -> SecretBytes {
        if let secret = try readIfPresent() {
            // The process that created the secret may not have synchronized the directory yet.
            try synchronizeDirectory()
            return secret
        }
        try make()
        return try read()
    }

    /// Reads the secret.
    func read() throws(KeychainError) -> SecretBytes {
        guard let secret = try readIfPresent() else {
            throw KeychainError(
                .deviceSecretMissing,
                """
                The keychain opens by the device secret \(path), which is missing. Put it back from a backup. Without it \
                the keychain can't be opened: then delete the keychain's file and create a new keychain.
                """
            )
        }
        return secret
    }

    private func readIfPresent() throws(KeychainError) -> SecretBytes? {
        guard let file = try openIfPresent() else { return nil }
        if let item = try item(named: file) {
            guard let secret = try Self.secret(of: item) else { throw ofAnotherDevice }
            return secret
        }
        guard let status = try? file.status(), status.size == Self.byteCount else { throw corrupt }
        var count = 0
        let secret = SecretBytes(count: Self.byteCount) { buffer in
            count = (try? file.descriptor.read(into: buffer)) ?? 0
        }
        guard count == Self.byteCount else { throw corrupt }
        return secret
    }

    /// Opens the file, if no other user could read or replace it.
    private func openIfPresent() throws(KeychainError) -> OpenFile? {
        let file: OpenFile
        do throws(Errno) {
            // O_NONBLOCK in case the path is a pipe. O_NOFOLLOW because another user could point a link elsewhere.
            file = try OpenFile(path: path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        } catch {
            guard error != .noSuchFileOrDirectory else { return nil }
            guard error != .tooManySymbolicLinkLevels else { throw unsafe("it's a symbolic link") }
            throw KeychainError(
                .cannotRead,
                "The device secret \(path) can't be read: \(error). Check its permissions."
            )
        }
        guard let status = try? file.status(), status.type == .regular else { throw unsafe("it's no file") }
        guard status.userID.rawValue == geteuid() else { throw unsafe("it belongs to another user") }
        guard status.permissions.isDisjoint(with: [.groupReadWriteExecute, .otherReadWriteExecute]) else {
            throw unsafe("users other than its owner have permissions on it")
        }
        return file
    }

    /// The item in a system's keychain that the file names; `nil` if the file has the secret itself.
    private func item(named file: OpenFile) throws(KeychainError) -> UUID? {
        guard let status = try? file.status(), status.size == Self.nameByteCount else { return nil }
        guard let name = try? file.read(at: 0, upTo: Self.nameByteCount),
            let item = UUID(uuidString: String(decoding: name, as: UTF8.self))
        else { throw corrupt }
        return item
    }

    /// Creates the secret, complete and durable, unless another process creates it first.
    private func make() throws(KeychainError) {
        let secret = SecretBytes(randomCount: Self.byteCount)
        #if canImport(Security)
        let item = KeychainItem(service: Self.service, account: UUID().uuidString)
        do throws(KeychainError) {
            _ = try SecurityKeychain.add(secret, as: item)
            return try write(SecretBytes(copying: Array(item.account.utf8)))
        } catch  where error.code == .notEntitled {}
        #endif
        try write(secret)
    }

    #if canImport(Security)
    /// The service of the item in the system's keychain.
    static let service = "swift-store-sync.device-secret"
    #endif

    /// The secret in an item of this device's system keychain; `nil` if it doesn't have the item.
    private static func secret(of item: UUID) throws(KeychainError) -> SecretBytes? {
        #if canImport(Security)
        do throws(KeychainError) {
            return try SecurityKeychain.secret(of: KeychainItem(service: service, account: item.uuidString))
        } catch  where error.code == .itemNotFound {
            return nil
        }
        #else
        return nil
        #endif
    }

    /// Writes the file, complete and durable, unless another process creates it first.
    private func write(_ content: SecretBytes) throws(KeychainError) {
        do throws(Errno) {
            let directory = try Directory(path: directory.path)
            let temporary = ".\(Self.name)-\(UUID().uuidString).tmp"
            let file = try directory.create(temporary, permissions: .ownerReadWrite)
            // Removes the temporary name, whether or not the file got its final name.
            defer { try? directory.unlink(temporary) }
            try content.withBytes { bytes throws(Errno) in try file.write(bytes) }
            // The umask may have narrowed the mode, but never widened it: the owner must be able to read the file.
            try file.setPermissions(.ownerReadWrite)
            try file.synchronize()
            // Unlike a rename, a link never replaces an existing file.
            do { try directory.link(temporary, to: directory, Self.name) } catch  where error == .fileExists {}
            try directory.synchronize()
        } catch {
            throw cannotWrite(error)
        }
    }

    private func synchronizeDirectory() throws(KeychainError) {
        do throws(Errno) {
            try Directory(path: directory.path).synchronize()
        } catch {
            throw cannotWrite(error)
        }
    }

    // MARK: Errors

    private var ofAnotherDevice: KeychainError {
        KeychainError(
            .deviceSecretMissing,
            """
            \(directory.path) was copied from another device, whose system's keychain has the device secret. Use a new \
            directory on this device.
            """
        )
    }

    private var corrupt: KeychainError {
        KeychainError(.corrupt, "The device secret \(path) is damaged. Put it back from a backup.")
    }

    private func unsafe(_ reason: String) -> KeychainError {
        KeychainError(
            .deviceSecretUnsafe,
            """
            The device secret \(path) isn't used: \(reason). If you trust the users who could read it, make it your own file \
            with mode 0600. Otherwise change the keychain's lock too.
            """
        )
    }

    private func cannotWrite(_ error: Errno) -> KeychainError {
        KeychainError(
            .cannotWrite,
            "The device secret \(path) can't be created: \(error). Check the directory's permissions and the free space on the disk."
        )
    }
}
