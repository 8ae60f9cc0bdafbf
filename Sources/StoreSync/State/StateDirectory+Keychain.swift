import FileSupport
import Foundation
import GRDB
import Keychain
import SyncCryptography
import ThreadSupport

/// The device's own keychain, `keychain.sqlite`, which holds the master keys of applications.
///
/// A secret beside it opens it, so each device asks for a password only once.
extension StateDirectory {
    /// The master key of an epoch of an application, if this device has it.
    func masterKey(
        for key: ApplicationKey,
        epoch: String,
        on executor: (any TaskExecutor)?
    ) async throws -> MasterKey? {
        guard try LocalFile.exists(keychainURL.path) else { return nil }
        do {
            let query = KeychainQuery(key.keychainItem(epoch: epoch))
            return try MasterKey(await keychain(on: executor).secret(matching: query))
        } catch let error as KeychainError where error.code == .itemNotFound {
            return nil
        }
    }

    /// Saves an application's master key, and deletes those of its former epochs with the items of its keychain.
    func keep(
        _ masterKey: MasterKey,
        for key: ApplicationKey,
        epoch: String,
        on executor: (any TaskExecutor)?
    ) async throws {
        let (keychain, item) = (try await keychain(on: executor), key.keychainItem(epoch: epoch))
        if try await self.masterKey(for: key, epoch: epoch, on: executor) != masterKey {
            do {
                try await keychain.add(masterKey.bytes, as: item)
            } catch let error as KeychainError where error.code == .duplicateItem {
                try await keychain.update(KeychainQuery(item), to: masterKey.bytes)
            }
        }
        let all = KeychainQuery(service: item.service)
        let former = try await keychain.copyMatching(all).map(\.item).filter { $0.account != item.account }
        guard !former.isEmpty else { return }
        // The items go first: if this is interrupted, the next call still finds the former keys and deletes both.
        try await blitzKeychain(of: key, on: executor)
        for item in former { try await keychain.blitz(KeychainQuery(item)) }
    }

    /// Deletes the items of an application's keychain, and then the master key of an epoch of the application if there is one.
    func giveUpKeys(of key: ApplicationKey, epoch: String?, on executor: (any TaskExecutor)?) async throws {
        try await blitzKeychain(of: key, on: executor)
        guard let epoch, try await masterKey(for: key, epoch: epoch, on: executor) != nil else { return }
        try await keychain(on: executor).blitz(KeychainQuery(key.keychainItem(epoch: epoch)))
    }

    /// Deletes the master keys of all epochs of an application.
    func forgetKeys(of key: ApplicationKey, on executor: (any TaskExecutor)?) async throws {
        guard try LocalFile.exists(keychainURL.path) else { return }
        let keychain = try await keychain(on: executor)
        do {
            let all = try await keychain.copyMatching(KeychainQuery(service: key.keychainService))
            for match in all { try await keychain.blitz(KeychainQuery(match.item)) }
        } catch let error as KeychainError where error.code == .itemNotFound {
            return
        }
    }

    /// Makes this device another client if the directory was copied from another device, whose system's keychain has the secret.
    ///
    /// The keychains, which don't open here, are set aside in the directory, and the secret last: until then, the next opening of
    /// the directory does the same.
    func becomeAnotherClientIfCopied() throws {
        guard let item = DeviceSecret(in: url).itemOfAnotherDevice() else { return }
        // The staging directories on the remote are the other device's.
        try write("forgetting the other device") { try $0.execute(sql: "DELETE FROM client; DELETE FROM staging") }
        let directory = try Directory(path: url.path)
        let name = "\(Self.keychainsAsideName)\(item.uuidString)"
        try directory.makeDirectory(name)
        let aside = try directory.directory(name)
        // Those of applications, and the device's own with its journal.
        for file in try FileManager.default.contentsOfDirectory(atPath: url.path)
        where file == Self.keychainsName || file.hasPrefix(Self.keychainName) {
            try directory.rename(file, to: aside, file)
        }
        for directory in [aside, directory] { try directory.synchronize() }
        try steps.reached("keychains set aside")
        try directory.rename(DeviceSecret.name, to: aside, DeviceSecret.name)
        for directory in [aside, directory] { try directory.synchronize() }
    }

    /// The name of the device's own keychain, with which those of its journal begin.
    static let keychainName = "keychain.sqlite"
    /// The beginning of the names of directories in which keychains are set aside.
    static let keychainsAsideName = "of-another-device-"

    private var keychainURL: URL { url.appending(path: Self.keychainName) }

    private func keychain(on executor: (any TaskExecutor)?) async throws -> FileKeychain {
        if let open = openKeychain.withLock({ $0 }) { return open }
        let group = try AccessGroupPattern("storesync.applications")
        let keychain = try await FileKeychain(
            at: keychainURL,
            entitlements: Entitlements(applicationIdentifier: group),
            executor: executor,
            options: FileKeychain.Options(steps: steps)
        )
        try await keychain.unlock(with: .deviceSecret(in: url))
        return openKeychain.withLock { open in
            // Another task may have opened it in the meantime.
            if open == nil { open = keychain }
            return open ?? keychain
        }
    }
}

extension ApplicationKey {
    fileprivate var keychainService: String {
        let name = "\(application) at \(remote)"
        // The path of a share may be longer than the service of an item.
        return name.utf8.count <= KeychainLimits.attributeBytes ? name : "application \(digest)"
    }

    fileprivate func keychainItem(epoch: String) -> KeychainItem {
        KeychainItem(service: keychainService, account: epoch)
    }
}

extension StoreSyncError {
    /// Translates an error of this device's keychain.
    init(_ error: KeychainError) {
        self.init(
            Self.code(for: error.code),
            "This device's keychain: \(error.message)\(Self.remedy(for: error))",
            cause: error
        )
    }

    private static func remedy(for error: KeychainError) -> String {
        if error.isSecretDamaged { return withoutSecret }
        return switch error.code {
        case .deviceSecretMissing, .wrongLock: withoutSecret
        case .corrupt, .tampered: withoutBackup
        case .deviceSecretUnsafe: withReadSecret
        default: ""
        }
    }

    /// What to do if no backup has the file of a keychain.
    private static let withoutBackup = """
         Without a backup, move the damaged file, with its -journal file if it exists, elsewhere. If it was \
        keychain.sqlite, this device asks for passwords again. If it was in the directory keychains, only items that \
        synchronize come back.
        """

    /// What to do if untrusted users could read the secret of a state directory, whose lock can't be changed.
    private static let withReadSecret = """
         In a state directory, move keychain-secret, keychain.sqlite and the directory keychains elsewhere: this device then \
        asks for passwords again, and only items that synchronize come back. If such a user may have copied them, create new \
        applications with other passwords.
        """

    /// What to do if no backup has the secret of a state directory.
    private static let withoutSecret = """
         In a state directory keychain-secret, keychain.sqlite (with keychain.sqlite-journal, if it exists) and the directory \
        keychains belong together. Without a backup, move all of them elsewhere: this device then asks for passwords again, and \
        only items that synchronize come back.
        """

    private static func code(for code: KeychainError.Code) -> Code {
        switch code {
        case .busy: .busy
        case .cannotRead, .cannotWrite, .full: .cannotWrite
        case .corrupt, .tampered: .corrupt
        case .notEntitled: .notEntitled
        case .unsupportedFormat: .unsupportedFormat
        default: .keychainLocked
        }
    }
}
