import Foundation
import Keychain
import SyncCryptography
import ThreadSupport

/// The master keys of applications are in a keychain of the device's own: `keychain.sqlite`, opened by a secret beside it. So a
/// password is asked once on each device.
extension StateDirectory {
    /// The master key of an epoch of an application, if this device has it.
    func masterKey(
        for key: ApplicationKey,
        epoch: String,
        on executor: (any TaskExecutor)?
    ) async throws -> MasterKey? {
        guard FileManager.default.fileExists(atPath: keychainURL.path) else { return nil }
        do {
            let query = KeychainQuery(key.keychainItem(epoch: epoch))
            return try MasterKey(await keychain(on: executor).secret(matching: query))
        } catch let error as KeychainError where error.code == .itemNotFound {
            return nil
        }
    }

    /// Keeps the master key of an application, and gives up those of its former epochs with the items of its keychain.
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
        // First what they belong to: if this ends in between, the next time finds the keys still there.
        try await blitzKeychain(of: key, on: executor)
        for item in former { try await keychain.blitz(KeychainQuery(item)) }
    }

    /// Gives up the master key of an epoch of an application, and before that the items of its keychain.
    func giveUpKeys(of key: ApplicationKey, epoch: String, on executor: (any TaskExecutor)?) async throws {
        guard try await masterKey(for: key, epoch: epoch, on: executor) != nil else { return }
        try await blitzKeychain(of: key, on: executor)
        try await keychain(on: executor).blitz(KeychainQuery(key.keychainItem(epoch: epoch)))
    }

    private var keychainURL: URL { url.appending(path: "keychain.sqlite") }

    private func keychain(on executor: (any TaskExecutor)?) async throws -> FileKeychain {
        if let open = openKeychain.withLock({ $0 }) { return open }
        let group = try AccessGroupPattern("storesync.applications")
        let keychain = try await FileKeychain(
            at: keychainURL,
            entitlements: Entitlements(applicationIdentifier: group),
            executor: executor,
            busyTimeout: 10,
            beforeCommit: { [hook] in try hook("keychain") }
        )
        try await keychain.unlock(with: .deviceSecret(in: url))
        return openKeychain.withLock { open in
            // Somebody else may have opened it meanwhile.
            if open == nil { open = keychain }
            return open ?? keychain
        }
    }
}

extension ApplicationKey {
    fileprivate func keychainItem(epoch: String) -> KeychainItem {
        KeychainItem(service: "\(application) at \(remote)", account: epoch)
    }
}

extension StoreSyncError {
    /// What an error of this device's keychain means.
    init(_ error: KeychainError) {
        self.init(Self.code(for: error.code), "This device's keychain: \(error.message)", cause: error)
    }

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
