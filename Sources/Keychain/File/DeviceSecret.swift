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

    private let directory: URL

    /// The path of the file.
    var path: String { directory.appending(path: Self.name).path }

    package init(in directory: URL) { self.directory = directory }

    /// The item of another device's keychain that has the secret, if the directory was copied from that device.
    ///
    /// It's `nil` too if the secret can't be read for another reason, which the keychain reports when it's unlocked.
    package func itemOfAnotherDevice() -> UUID? {
        guard let file = try? openIfPresent(), let named = try? name(in: file), named.isCopied else { return nil }
        do throws(KeychainError) {
            return try Self.secret(of: named.item) == nil ? named.item : nil
        } catch {
            return nil
        }
    }

    /// Reads the secret, or creates it if it doesn't exist; concurrent processes get the same secret.
    func readOrMake() throws(KeychainError) -> SecretBytes {
        if let secret = try readIfPresent() {
            // The process that created the secret may not have synchronized the directory yet, or may have died before it removed
            // the temporary name.
            try tidyUp()
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
        if let named = try name(in: file) {
            guard let secret = try Self.secret(of: named.item) else { throw named.isCopied ? ofAnotherDevice : hidden }
            // The file was restored on its own device. If that fails, the next reading tries again.
            if named.isCopied { try? writeName(of: named.item, replacing: true) }
            return secret
        }
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

    /// What a file without the secret names: an item of a system's keychain, and the file's own inode.
    ///
    /// Text: the identifier, a space, and the inode in hexadecimal. A copy of the file has another inode. If the item isn't found,
    /// that tells a copy on another device from the original in a program that isn't entitled to the item.
    package struct Name {
        package let item: UUID
        let inode: UInt64

        package init(item: UUID, inode: UInt64) { (self.item, self.inode) = (item, inode) }

        init?(_ bytes: [UInt8]) {
            let fields = String(decoding: bytes, as: UTF8.self).split(separator: " ", omittingEmptySubsequences: false)
            guard fields.count == 2, let item = UUID(uuidString: String(fields[0])),
                let inode = UInt64(fields[1], radix: 16)
            else { return nil }
            self.init(item: item, inode: inode)
        }

        package var bytes: [UInt8] { Array("\(item.uuidString) \(String(inode, radix: 16))".utf8) }

        static let maximumBytes = 53
    }

    /// Returns what the file names, and whether it's a copy; `nil` if the file has the secret itself.
    private func name(in file: OpenFile) throws(KeychainError) -> (item: UUID, isCopied: Bool)? {
        guard let status = try? file.status() else { throw corrupt }
        // A name has at least 38 bytes.
        guard status.size != Self.byteCount else { return nil }
        guard status.size <= Name.maximumBytes, let bytes = try? file.read(at: 0, upTo: Name.maximumBytes),
            let name = Name(bytes)
        else { throw corrupt }
        return (name.item, name.inode != Self.inode(status))
    }

    private static func inode(_ status: Stat) -> UInt64 { UInt64(truncatingIfNeeded: status.inode.rawValue) }

    /// Creates the secret, complete and durable, unless another process creates it first.
    private func make() throws(KeychainError) {
        let secret = SecretBytes(randomCount: Self.byteCount)
        #if canImport(Security)
        let item = UUID()
        do throws(KeychainError) {
            _ = try SecurityKeychain.add(secret, as: KeychainItem(service: Self.service, account: item.uuidString))
            return try writeName(of: item)
        } catch  where error.code == .notEntitled {}
        #endif
        try write { _ in secret }
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

    private func writeName(of item: UUID, replacing isReplacing: Bool = false) throws(KeychainError) {
        try write(replacing: isReplacing) { inode in SecretBytes(copying: Name(item: item, inode: inode).bytes) }
    }

    /// Writes the file, complete and durable, unless another process creates it first.
    ///
    /// - Parameters:
    ///   - isReplacing: Whether an existing file is replaced.
    ///   - content: Is called with the file's inode.
    /// - Throws: ``KeychainError/Code/cannotWrite``.
    private func write(
        replacing isReplacing: Bool = false,
        _ content: (_ inode: UInt64) -> SecretBytes
    ) throws(KeychainError) {
        do throws(Errno) {
            let directory = try Directory(path: directory.path)
            let temporary = "\(Self.temporaryPrefix)\(UUID().uuidString)\(Self.temporarySuffix)"
            let file = try directory.create(temporary, permissions: .ownerReadWrite)
            // Removes the temporary name, whether or not the file got its final name.
            defer { try? directory.unlink(temporary) }
            try content(Self.inode(file.status())).withBytes { bytes throws(Errno) in try file.write(bytes) }
            // The umask may have narrowed the mode, but never widened it: the owner must be able to read the file.
            try file.setPermissions(.ownerReadWrite)
            try file.synchronize()
            if isReplacing {
                try directory.rename(temporary, to: directory, Self.name)
            } else {
                do throws(Errno) {
                    try directory.renameExclusively(temporary, Self.name)
                } catch  where [.fileExists, .noSuchFileOrDirectory].contains(error) {
                    // Another process was first: the secret exists, and so the temporary name may be removed already.
                }
            }
            try directory.synchronize()
        } catch {
            throw cannotWrite(error)
        }
    }

    private static let temporaryPrefix = ".\(name)-"
    private static let temporarySuffix = ".tmp"

    /// Completes what the process that created the secret may have left undone.
    private func tidyUp() throws(KeychainError) {
        do throws(Errno) {
            let directory = try Directory(path: directory.path)
            for bytes in try directory.names() {
                let name = String(decoding: bytes.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
                guard name.hasPrefix(Self.temporaryPrefix), name.hasSuffix(Self.temporarySuffix) else { continue }
                try? directory.unlink(name)
            }
            try directory.synchronize()
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

    private var hidden: KeychainError {
        KeychainError(
            .notEntitled,
            """
            The device secret of \(directory.path) is in an item of the system's keychain that this program can't find. If \
            another program of yours made it, give both the same keychain access group, first in their entitlements. If the \
            item was deleted, use a new directory.
            """
        )
    }

    private var corrupt: KeychainError {
        var error = KeychainError(
            .corrupt,
            "The device secret \(path) is damaged, or another version of this program wrote it. Put it back from a backup."
        )
        error.isSecretDamaged = true
        return error
    }

    private func unsafe(_ reason: String) -> KeychainError {
        KeychainError(
            .deviceSecretUnsafe,
            """
            The device secret \(path) isn't used: \(reason). If you trust the users who could read it, make it your own file \
            with mode 0600. FAT, exFAT and NTFS may keep no modes: mount the file system with uid= and umask=077. If you don't \
            trust them, change the keychain's lock too, if it can be changed.
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
