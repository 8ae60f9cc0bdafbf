import Foundation
import SyncCryptography

/// 32 random bytes in a file that only its owner can read.
struct DeviceSecret {
    static let name = "keychain-secret"
    private static let byteCount = 32

    private let directory: URL

    private var path: String { directory.appending(path: Self.name).path }

    init(in directory: URL) { self.directory = directory }

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
        // O_NONBLOCK in case the path is a pipe. O_NOFOLLOW because another user could point a link elsewhere.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            guard errno != ENOENT else { return nil }
            guard errno != ELOOP else { throw unsafe("it's a symbolic link") }
            throw KeychainError(
                .cannotRead,
                "The device secret \(path) can't be read: \(errorText(errno)). Check its permissions."
            )
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { throw unsafe("it's no file") }
        guard status.st_uid == geteuid() else { throw unsafe("it belongs to another user") }
        guard status.st_mode & 0o077 == 0 else { throw unsafe("users other than its owner have permissions on it") }
        guard status.st_size == Self.byteCount else { throw corrupt }
        var count = 0
        let secret = SecretBytes(count: Self.byteCount) { buffer in
            count = Foundation.read(descriptor, buffer.baseAddress, buffer.count)
        }
        guard count == Self.byteCount else { throw corrupt }
        return secret
    }

    /// Creates the secret, complete and durable, unless another process creates it first.
    private func make() throws(KeychainError) {
        let temporary = directory.appending(path: ".\(Self.name)-\(UUID().uuidString).tmp").path
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw cannotWrite(errno) }
        // Removes the temporary name, whether or not the file got its final name.
        defer { unlink(temporary) }
        let written = SecretBytes(randomCount: Self.byteCount).withBytes { write(descriptor, $0.baseAddress, $0.count) }
        // The umask may have narrowed the mode, but never widened it: the owner must be able to read the file.
        let isWhole = written == Self.byteCount && fchmod(descriptor, 0o600) == 0 && synchronize(descriptor)
        let problem = errno
        guard close(descriptor) == 0, isWhole else { throw cannotWrite(isWhole ? errno : problem) }
        // Unlike a rename, a link never replaces an existing file.
        guard link(temporary, path) == 0 || errno == EEXIST else { throw cannotWrite(errno) }
        try synchronizeDirectory()
    }

    private func synchronizeDirectory() throws(KeychainError) {
        let descriptor = open(directory.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw cannotWrite(errno) }
        defer { close(descriptor) }
        guard synchronize(descriptor) else { throw cannotWrite(errno) }
    }

    /// Waits until the written data is on the medium, if the file system supports that.
    private func synchronize(_ descriptor: Int32) -> Bool {
        #if canImport(Darwin)
        // On Darwin fsync(2) leaves the data in the drive's cache.
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return true }
        #endif
        while fsync(descriptor) != 0 {
            guard errno == EINTR else { return [EINVAL, ENOTSUP, EOPNOTSUPP].contains(errno) }
        }
        return true
    }

    // MARK: Errors

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

    private func cannotWrite(_ number: Int32) -> KeychainError {
        KeychainError(
            .cannotWrite,
            "The device secret \(path) can't be created: \(errorText(number)). Check the directory's permissions and the free space on the disk."
        )
    }

    private func errorText(_ number: Int32) -> String { String(cString: strerror(number)) }
}
