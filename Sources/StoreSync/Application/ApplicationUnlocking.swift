import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// The files on the remote that say how an application is encrypted, read at one moment.
struct EncryptionFiles: Sendable {
    /// `Information/registration.plist`, byte for byte.
    var registration: [UInt8]?
    var hasSalt: Bool
    /// `Encryption/test.ticdsync`, byte for byte.
    var passwordTest: [UInt8]?

    /// Whether both the salt and the password test exist, with which the password opens the application.
    var hasAllKeyFiles: Bool { hasSalt && passwordTest != nil }
    /// Whether the salt or the password test exists, so that the application is encrypted.
    var hasAnyKeyFile: Bool { hasSalt || passwordTest != nil }

    static func fetch(
        _ hooks: any ApplicationRegistrationHooks,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> EncryptionFiles {
        async let registration = hooks.fetchRegistration(hierarchy)
        async let hasSalt = hooks.saltFileExists(hierarchy)
        async let passwordTest = hooks.fetchPasswordTest(hierarchy)
        return try await EncryptionFiles(registration: registration, hasSalt: hasSalt, passwordTest: passwordTest)
    }
}

/// Finds the key that an application's files are sealed with: with this device's keys, else with a password.
///
/// This device's memory comes first: an application that it knows as encrypted is never taken for another one, whatever
/// the storage says.
struct ApplicationUnlocking: Sendable {
    let hierarchy: ApplicationHierarchy
    let key: ApplicationKey
    let state: StateDirectory
    private let delegate: ApplicationRegistrationOperation.Delegate
    let replacement: any ApplicationReplacementHooks
    let hooks: any ApplicationRegistrationHooks
    /// Whether the password is tried even if this device has the keys.
    var triesPassword = false

    init(
        _ hierarchy: ApplicationHierarchy,
        _ backend: any RemoteBackend,
        _ state: StateDirectory,
        delegate: @escaping ApplicationRegistrationOperation.Delegate
    ) {
        self.hierarchy = hierarchy
        key = ApplicationKey(backend, hierarchy.application)
        self.state = state
        self.delegate = delegate
        replacement = backend.applicationReplacementHooks
        hooks = backend.applicationRegistrationHooks
    }

    /// An encrypted application that was opened.
    struct Unlocked: Sendable {
        var seal: ApplicationSeal
        var keyFile: KeyFile
        var pin: ApplicationPin
        /// Warnings for the user, in full sentences.
        var warnings: [String]
    }

    /// Refuses an application that was encrypted when this device last saw it and now lacks a part of its encryption.
    func checkPin(_ pin: ApplicationPin?, _ info: RegistrationInfo?, _ files: EncryptionFiles) throws(StoreSyncError) {
        if let pin, pin.isEncrypted, info?.isEncrypted != true || !files.hasAllKeyFiles {
            throw downgraded(info, files)
        }
        // No device creates such an application: `none` has replaced the suite in the registration.
        if let info, !info.isEncrypted, files.hasAnyKeyFile {
            throw StoreSyncError(
                .encryptionDowngraded,
                """
                \(hierarchy.application) says that it isn't encrypted, but has the keys of an encrypted one. The \
                remote may have been tampered with. Nothing was written. Restore \(hierarchy.registration) from a \
                backup.
                """
            )
        }
    }

    /// An encrypted application as found on the remote, before it's opened.
    struct Sealed: Sendable {
        var registration: StoredRegistration
        /// The key file's bytes.
        var passwordTest: [UInt8]
        /// This device's memory of this epoch.
        var pin: ApplicationPin?

        var info: RegistrationInfo { registration.info }
    }

    /// The files of the encryption, and what this device remembered of the application before they were read.
    typealias Remembered = (files: EncryptionFiles, pin: ApplicationPin?)

    /// Reads this device's memory of the application, and then its files.
    ///
    /// In that order, since another operation of this device may change the password meanwhile.
    func fetch(_ context: OperationContext) async throws -> Remembered {
        let pin = try await pin(context)
        return (try await EncryptionFiles.fetch(hooks, hierarchy), pin)
    }

    private func pin(_ context: OperationContext) async throws -> ApplicationPin? {
        try await context.blocking { [state, key] in try state.pin(for: key) }
    }

    /// Inspects an application without changing this device's memory.
    ///
    /// A directory that has neither a registration nor keys must be a tree that TICoreDataSync wrote.
    ///
    /// - Returns: `nil` if it isn't encrypted.
    func inspect(_ remembered: Remembered, _ context: OperationContext) async throws -> Sealed? {
        let files = remembered.files
        var pin = remembered.pin
        let registration = try files.registration.map { try StoredRegistration($0, at: hierarchy.registration) }
        // Another operation of this device may have replaced the application meanwhile.
        if pin?.epoch != registration?.info.epoch { pin = try await self.pin(context) }
        try checkPin(pin, registration?.info, files)
        guard registration != nil || !files.hasAnyKeyFile else { throw registrationMissing }
        guard let registration else {
            try await requireLegacyTree()
            return nil
        }
        guard registration.info.isEncrypted else { return nil }
        guard let passwordTest = files.passwordTest else {
            throw StoreSyncError(
                .applicationIncomplete,
                "\(hierarchy.passwordTest) is missing on the remote: it is still arriving, or was damaged. Try again when everything has arrived."
            )
        }
        if let pin, pin.epoch != registration.info.epoch {
            throw try await newEpoch(registration, after: pin, context)
        }
        return Sealed(registration: registration, passwordTest: passwordTest, pin: pin)
    }

    /// Returns the seal of an application's files without changing this device's memory.
    func seal(_ remembered: Remembered, _ context: OperationContext) async throws -> ApplicationSeal {
        guard let sealed = try await inspect(remembered, context) else {
            return ApplicationSeal(application: hierarchy.application, key: nil)
        }
        return try await unlock(sealed, context).seal
    }

    /// The application is encrypted, but its registration hasn't arrived.
    var registrationMissing: StoreSyncError {
        StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.registration) is missing on the remote, but sealed files or keys exist: it is still arriving, \
            or was lost or hidden. Nothing was written. \(StoreSyncError.remedyForMissingRegistration(hierarchy))
            """
        )
    }

    /// The directory has parts of an application, but no registration, and TICoreDataSync didn't write it.
    var unregistered: StoreSyncError {
        StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote has no registration: it is still arriving, was damaged, is left of a removed \
            application, or isn't an application. If it was removed, run storesync remove application again on the device \
            that removed it. \(StoreSyncError.remedyForMissingRegistration(hierarchy))
            """
        )
    }

    /// Refuses a directory without a registration unless it's an unencrypted tree of TICoreDataSync.
    ///
    /// Other directories may be an application that is still arriving, or have nothing to do with this package.
    private func requireLegacyTree() async throws {
        async let parts = hooks.missingParts(hierarchy)
        let (clients, infos) = try await deviceInfos()
        guard !infos.contains(where: { $0.map { EpochKey.isSealed($0) } ?? false }) else { throw registrationMissing }
        guard !isLegacy(clients, infos) else { return }
        guard let missing = try await parts, !hierarchy.isEmpty(missing) else {
            throw StoreSyncError.applicationMissing(hierarchy.application, at: hooks.backend.identity)
        }
        throw unregistered
    }

    /// Returns the clients, each with its saved device info if there is one.
    func deviceInfos() async throws -> (clients: [RemoteIdentifier], infos: [[UInt8]?]) {
        let clients = try await hooks.listClients(hierarchy)
        let infos = try await clients.concurrentMap { [hooks, hierarchy] in
            try await hooks.fetchDeviceInfo(of: $0, hierarchy)
        }
        return (clients, infos)
    }

    /// Whether clients without a registration are those of an unencrypted tree of TICoreDataSync.
    ///
    /// Every saved device info must be readable: another may be sealed, and then the rest proves nothing. None may name an
    /// epoch: an application that has one has a registration, which is still arriving.
    func isLegacy(_ clients: [RemoteIdentifier], _ infos: [[UInt8]?]) -> Bool {
        let saved = zip(clients, infos).compactMap { client, bytes in bytes.map { (client, $0) } }
        return !saved.isEmpty
            && saved.allSatisfy { client, bytes in
                let info = try? DeviceInfo(bytes, at: hierarchy.deviceInfo(client))
                return info.map { $0.epoch == nil } ?? false
            }
    }

    /// Returns the key that this device keeps of an application's epoch, whatever the key file says.
    func keptKey(of epoch: String, _ context: OperationContext) async throws -> EpochKey? {
        guard let identifier = UUID(uuidString: epoch) else { return nil }
        return try await state.masterKey(for: key, epoch: epoch, on: context.blockingExecutor)
            .map { EpochKey(master: $0, epoch: identifier) }
    }

    /// Opens an encrypted application; `password` is tried before the delegate is asked.
    func unlock(
        _ sealed: Sealed,
        trying password: Password? = nil,
        _ context: OperationContext
    ) async throws -> Unlocked {
        let info = sealed.info
        let (keyFile, master) = try await openKeyFile(of: sealed, password, context)
        guard keyFile.binds(registration: sealed.registration.bytes) else {
            throw StoreSyncError(
                .tampered,
                "\(hierarchy.registration) on the remote isn't the registration that the application was created with. Restore it from a backup."
            )
        }
        try refuseForeign(info)
        let pin = ApplicationPin(encryption: info.encryption, epoch: info.epoch, keyFile)
        let seal = ApplicationSeal(
            application: hierarchy.application,
            key: EpochKey(master: master, epoch: keyFile.epoch)
        )
        let warnings = sealed.pin?.contradicts(keyFile) == true ? [otherPassword] : []
        return Unlocked(seal: seal, keyFile: keyFile, pin: pin, warnings: warnings)
    }

    /// Another device has overwritten the password that this device knows.
    private var otherPassword: String {
        """
        Another device has changed the password of \(hierarchy.application) at the same time as the last change that this \
        device knows of, or after an older key file was put back. The other device's password is the valid one. If it \
        shouldn't be, change the password again.
        """
    }

    /// Refuses the registration of another encrypted application.
    ///
    /// If both have the same password, devices would seal the files of this application with the other one's key.
    func refuseForeign(_ info: RegistrationInfo) throws(StoreSyncError) {
        guard let application = info.application, application != hierarchy.application.rawValue else { return }
        throw StoreSyncError(
            .tampered,
            """
            \(hierarchy.registration) on the remote is the registration of \(application). Nothing was written. Restore \
            it from a backup. If the directory was renamed, give it its former name.
            """
        )
    }

    /// Reads a key file, which must belong to the application and be as new as this device has seen it.
    private func keyFile(_ bytes: [UInt8], of sealed: Sealed) throws -> KeyFile {
        let keyFile = try KeyFile(bytes, at: hierarchy.passwordTest)
        guard keyFile.epoch == UUID(uuidString: sealed.info.epoch) else {
            throw StoreSyncError(
                .tampered,
                "\(hierarchy.passwordTest) on the remote belongs to another application than \(hierarchy.registration). Wait if they may still be arriving; else restore both from a backup."
            )
        }
        if let seen = sealed.pin?.passwordVersion, keyFile.passwordVersion < seen {
            throw StoreSyncError(
                .rolledBack,
                """
                The password of \(hierarchy.application) was changed, but the remote has an older key file. The \
                current one is still arriving, another device that changed the password at the same time has \
                overwritten it, or the storage was put back to an older state. Try again when everything has arrived. If \
                the older file stays, change the password on a device that hasn't seen the change, or in a new state \
                directory (--state) with the password of that file, until the application has had \(seen) passwords in \
                all, now \(keyFile.passwordVersion): then this device continues.
                """
            )
        }
        return keyFile
    }

    /// Opens the key file with this device's keys, else with a password.
    private func openKeyFile(
        of sealed: Sealed,
        _ first: Password?,
        _ context: OperationContext
    ) async throws -> (KeyFile, MasterKey) {
        var keyFile = try keyFile(sealed.passwordTest, of: sealed)
        let kept = try await state.masterKey(for: key, epoch: sealed.info.epoch, on: context.blockingExecutor)
        if let kept {
            try check(keyFile, isProvenBy: kept)
            if !triesPassword { return (keyFile, kept) }
        }
        var password = first
        while true {
            if let password {
                if let master = try await open(keyFile, with: password, context) { return (keyFile, master) }
                // Another device may have changed the password while the user was asked.
                if let changed = try await changedKeyFile(since: keyFile, of: sealed) {
                    if let kept { try check(changed, isProvenBy: kept) }
                    keyFile = changed
                    if let master = try await open(keyFile, with: password, context) { return (keyFile, master) }
                }
            }
            let decision = try await decide(.joiningEncrypted(passwordWasWrong: password != nil), context)
            guard case .encrypted(let answer) = decision else {
                throw StoreSyncError(
                    .encryptionMismatch,
                    "\(hierarchy.application) is encrypted, but was to be joined without encryption. Nothing was written. Give its password."
                )
            }
            password = answer
        }
    }

    /// Asks the delegate; the operation is paused meanwhile.
    func decide(_ question: EncryptionQuestion, _ context: OperationContext) async throws -> EncryptionDecision {
        try await context.pause(awaiting: "\(question)") { try await delegate(question) }
    }

    /// The key file on the remote, or `nil` if it's the former one or older.
    private func changedKeyFile(since former: KeyFile, of sealed: Sealed) async throws -> KeyFile? {
        guard let bytes = try await hooks.fetchPasswordTest(hierarchy), bytes != former.bytes else { return nil }
        let changed = try keyFile(bytes, of: sealed)
        return changed.passwordVersion >= former.passwordVersion ? changed : nil
    }

    private func check(_ keyFile: KeyFile, isProvenBy kept: MasterKey) throws(StoreSyncError) {
        guard keyFile.isProven(by: kept) else {
            throw StoreSyncError(
                .tampered,
                "\(hierarchy.passwordTest) on the remote doesn't belong to the application that this device knows. Nothing was written. Restore it from a backup."
            )
        }
    }

    /// The master key, or `nil` if the password is wrong.
    private func open(
        _ keyFile: KeyFile,
        with password: Password,
        _ context: OperationContext
    ) async throws -> MasterKey? {
        do {
            return try await keyFile.open(with: password, executor: context.blockingExecutor)
        } catch let error as CryptographyError where error.code == .wrongPassword {
            return nil
        } catch let error as CryptographyError {
            throw StoreSyncError(error, at: hierarchy.passwordTest)
        }
    }
}
