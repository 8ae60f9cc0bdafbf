import Foundation
import Keychain
import Operations
import RemoteStorage
import SyncCryptography

// Checks of the application itself, before those of its documents.
extension VerificationOperation {
    /// Opens an encrypted application.
    ///
    /// A damaged registration or key file is reported as a problem, as is a missing one of an encrypted application.
    ///
    /// - Returns: Whether sealed files can be opened.
    func unlock(_ context: OperationContext) async throws -> Bool {
        let unlocking = access.unlocking
        let remembered = try await unlocking.fetch(context)
        let files = remembered.files
        if let bytes = files.registration, (try? RegistrationInfo(bytes, at: hierarchy.registration)) == nil {
            // The state of the application is unknown, so nothing is written.
            repairs = false
            return try await unlock(withoutRegistration: remembered, context)
        }
        let inspected: ApplicationUnlocking.Sealed?
        do {
            inspected = try await unlocking.inspect(remembered, context)
        } catch let error as StoreSyncError where files.registration == nil && error.code == .applicationIncomplete {
            problem(hierarchy.registration, error)
            repairs = false
            return false
        } catch let error as StoreSyncError where error.code == .encryptionDowngraded {
            repairs = false
            let isOpen = try await unlock(withoutRegistration: remembered, context)
            let path = unlocking.missingFiles(files).first ?? hierarchy.registration
            if !report.problems.contains(where: { $0.path == "\(path)" }) { problem(path, error) }
            return isOpen
        }
        guard let sealed = inspected else { return true }
        try await checkSalt(epoch: sealed.info.epoch)
        known.insert(hierarchy.passwordTest)
        count(hierarchy.passwordTest, Int64(sealed.passwordTest.count))
        do {
            let unlocked = try await unlocking.unlock(sealed, context)
            seal = unlocked.seal
            report.warnings += unlocked.warnings
            try await checkPasswordClaims(besides: unlocked.keyFile)
            return true
        } catch let error as StoreSyncError where Self.damages.contains(error.code) {
            let isForeign = (try? unlocking.refuseForeign(sealed.info)) == nil
            problem(isForeign ? hierarchy.registration : hierarchy.passwordTest, error)
            // Nothing is written into an application that may be another one.
            repairs = false
            guard let epochKey = try await unlocking.keptKey(of: sealed.info.epoch, context) else { return false }
            seal = ApplicationSeal(application: hierarchy.application, key: epochKey)
            return true
        }
    }

    /// Opens an application whose registration is damaged or can't be trusted, with what this device remembers of it.
    private func unlock(
        withoutRegistration remembered: ApplicationUnlocking.Remembered,
        _ context: OperationContext
    ) async throws -> Bool {
        let (files, pin) = remembered
        guard pin?.isEncrypted ?? files.hasAnyKeyFile else { return true }
        guard let epoch = pin?.epoch, let epochKey = try await access.unlocking.keptKey(of: epoch, context) else {
            return false
        }
        try await checkSalt(epoch: epoch)
        seal = ApplicationSeal(application: hierarchy.application, key: epochKey)
        return true
    }

    /// The errors that mean a damaged key file, and not a wrong password or a missing one.
    private static let damages: Set<StoreSyncError.Code> = [
        .corrupt, .tampered, .unsupportedFormat, .rolledBack, .encryptionDowngraded,
    ]

    private func checkSalt(epoch: String?) async throws {
        let path = hierarchy.salt
        let isThere = try await check(path) { bytes in
            do {
                guard try SaltFile(bytes).epoch.uuidString != epoch else { return }
                throw StoreSyncError(
                    .tampered,
                    "\(path) on the remote belongs to another application. It has no effect. Restore it from a backup."
                )
            } catch let error as CryptographyError {
                throw StoreSyncError(error, at: path)
            }
        }
        guard !isThere else { return }
        problem(
            path,
            code: "missing",
            "It must always exist where files are sealed. The next device that registers for the first time creates it."
        )
    }

    /// Checks the claims to change the password: those to a version that exists are leftovers, others may be in use.
    private func checkPasswordClaims(besides keyFile: KeyFile) async throws {
        for item in try await hooks.listItems(in: hierarchy.encryption) ?? [] {
            let version = ApplicationHierarchy.passwordVersion(ofClaimNamed: item.name, epoch: keyFile.epoch)
            guard let version else { continue }
            let path = hierarchy.passwordClaim(version, of: keyFile.epoch)
            known.insert(path)
            if version > keyFile.passwordVersion {
                report.warnings.append(
                    """
                    \(path) belongs to a change of the password, which is in progress or was interrupted. If it was \
                    interrupted, change the password again.
                    """
                )
            } else if repairs {
                try await hooks.removeLeftover(at: path)
                repaired(path)
            } else {
                report.warnings.append("\(path) is left from a change of the password: --repair removes it.")
            }
        }
    }

    /// Checks the staging directories: this device's are leftovers, those of other devices may still be in use.
    func checkStagings(_ context: OperationContext) async throws {
        // A registration of this device that is in progress holds the lock, and its staging isn't a leftover.
        let lock = repairs ? try? await state.lock(.application(key), .exclusive, for: context) : nil
        defer { lock?.release() }
        let own = Set(try await context.blocking { [state, key] in try state.stagings(for: key) })
        let prefix = ApplicationHierarchy.stagingName("")
        let names = (try await hooks.listItems(in: .root) ?? []).map(\.name)
        for name in names where name.hasPrefix(prefix) {
            let path = try RemotePath.root.appending(name)
            if own.contains(name), lock != nil {
                try await hooks.removeLeftover(at: path)
                // A name that isn't listed stays remembered: the share may be unmounted.
                try await context.blocking { [state, key] in try state.forgetStaging(name: name, for: key) }
                repaired(path)
            } else {
                report.warnings.append(
                    own.contains(name)
                        ? "\(path) is left from a registration of this device: if none is in progress, --repair removes it."
                        : "\(path) belongs to another device's registration, which is in progress or was interrupted."
                )
            }
        }
        for name in names.compactMap(AsideName.init) where name.application == hierarchy.application {
            report.warnings.append(
                "\(name.name) is left from replacing the application, which is in progress or was interrupted: the passcode setup finishes it."
            )
        }
    }

    func checkApplication(isOpen: Bool, _ context: OperationContext) async throws {
        let path = hierarchy.registration
        let isRegistered = try await check(path) { _ = try RegistrationInfo($0, at: path) }
        known.insert(hierarchy.readMe)
        guard isRegistered else {
            // If keys exist or this device has them, it has been reported as a problem.
            guard isOpen, !seal.isEncrypted else { return }
            report.warnings.append("\(path) is missing: this is a tree of TICoreDataSync, or it is still arriving.")
            return
        }
        let missing =
            try await backend.applicationRegistrationHooks.missingParts(hierarchy)?
            .subtracting([hierarchy.keychains]) ?? []
        guard !missing.isEmpty else { return }
        let pin = try await context.blocking { [state, key] in try state.pin(for: key) }
        guard repairs, pin != nil else {
            for path in missing.sorted() {
                problem(path, code: "missing", "It must always exist. The next registration creates it.")
            }
            return
        }
        let hooks = backend.applicationRegistrationHooks
        try await hooks.createApplicationDirectoryStructure(hierarchy)
        try await hooks.saveReadMe(ApplicationRegistrationRequest.defaultReadMe, hierarchy)
        for path in missing.sorted() { repaired(path) }
    }

    func checkClient(_ client: RemoteIdentifier, isOwn: Bool) async throws {
        let path = hierarchy.deviceInfo(client)
        let isThere = try await check(path, .deviceInfo(client)) { bytes in
            let info = try DeviceInfo(bytes, at: path)
            guard info.client == client.rawValue else {
                throw StoreSyncError.corrupt(path, "it belongs to client \(info.client)")
            }
        }
        guard !isThere else { return }
        report.warnings.append(
            isOwn
                ? "\(path) is missing: this device's registration was interrupted. Register again to finish it."
                : "\(path) is missing: that client's registration is in progress or was interrupted."
        )
    }

    /// Checks the keychain files that the clients have published.
    func checkKeychains(_ context: OperationContext) async throws {
        let hooks = backend.keychainSynchronizationHooks
        let memory = try await context.blocking { [state, key] in try state.keychainMemory(for: key) }
        for item in try await hooks.listKeychainFiles(hierarchy) where item.kind == .file {
            guard let client = ApplicationHierarchy.client(ofKeychainNamed: item.name) else { continue }
            let path = hierarchy.keychain(client)
            known.insert(path)
            guard let key = seal.key else {
                report.warnings.append("\(path) doesn't belong in an application that isn't encrypted.")
                continue
            }
            do {
                let limit = KeychainFile.maximumSealedBytes
                guard let sealed = try await hooks.fetchKeychainFile(of: client, upTo: limit, hierarchy) else {
                    continue
                }
                count(path, Int64(sealed.count))
                let file = try KeychainFile(openingFileOf: client, sealed, with: key, in: hierarchy)
                guard memory.isOlder(file, of: client.rawValue) else { continue }
                problem(
                    path,
                    code: "rolledBack",
                    "It is older than the version that this device has read: the newer one is still arriving, or an old one was put back."
                )
            } catch let error as StoreSyncError {
                problem(path, error)
            } catch let error as RemoteError where Self.isOfOneFile(error) {
                unreadable(path, error)
            }
        }
    }
}
