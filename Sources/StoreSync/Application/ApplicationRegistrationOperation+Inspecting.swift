import RemoteStorage
import SyncCryptography
import ThreadSupport

/// What is on the remote, before anything is decided or written.
extension ApplicationRegistrationOperation {
    /// The state of the application on the remote.
    enum Found {
        /// The application's directory is missing.
        case nothing
        /// The application's directory has none of its parts: its creation was interrupted, or it's still arriving.
        case empty
        /// An unencrypted tree of TICoreDataSync, which has clients and no registration.
        case legacy
        /// There is a registration; other parts may be missing.
        case registered(StoredRegistration)
    }

    /// The state found, with what a client needs to know about it.
    struct RemoteState {
        var found: Found
        var files: EncryptionFiles
        var missingParts: Set<RemotePath>
        /// Whether a client may have published items of its keychain.
        var hasKeychains: Bool
        var deviceInfo: [UInt8]?
        /// The notes that this client was removed, which count if they are authentic.
        var removalNotes: [ClientNote]
        var warnings: [String] = []
    }

    /// Sends all requests that don't depend on each other; a known client needs no others.
    func inspect(for client: RemoteIdentifier?, _ pin: ApplicationPin?) async throws -> RemoteState {
        async let encryption = EncryptionFiles.fetch(hooks, hierarchy)
        async let parts = hooks.missingParts(hierarchy)
        async let deviceInfo = client.mapAsync { try await self.hooks.fetchDeviceInfo(of: $0, self.hierarchy) }
        async let notes = client.mapAsync {
            try await ClientNote.read(on: $0, in: self.hierarchy.deletedClients, self.hooks)
        }
        var (files, missing) = try await (encryption, parts)
        let (info, removalNotes) = try await (deviceInfo, notes)
        let found = try await classify(&files, missing, pin)
        return RemoteState(
            found: found,
            files: files,
            missingParts: (missing ?? []).subtracting([hierarchy.keychains]),
            hasKeychains: missing?.contains(hierarchy.keychains) == false,
            deviceInfo: info ?? nil,
            removalNotes: removalNotes ?? []
        )
    }

    private func classify(
        _ files: inout EncryptionFiles,
        _ missing: Set<RemotePath>?,
        _ pin: ApplicationPin?
    ) async throws -> Found {
        // The root is missing. That says nothing about the application: the share may not be mounted.
        guard let missing else { return .nothing }
        if let found = try registered(files, pin) { return found }
        let (clients, infos) = try await unlocking.deviceInfos()
        // These answers are from different moments, and another device may have created the application in between. It
        // starts with the registration. If that is still missing, the parts found aren't that device's work.
        files = try await EncryptionFiles.fetch(hooks, hierarchy)
        if let found = try registered(files, pin) { return found }
        try await refuseKeysWithoutRegistration(files)
        // A device that creates an application in place starts with the registration, so parts without it are still
        // arriving.
        if clients.isEmpty, hierarchy.isEmpty(missing) { return .empty }
        if unlocking.isLegacy(clients, infos) { return .legacy }
        throw unlocking.unregistered
    }

    private func registered(_ files: EncryptionFiles, _ pin: ApplicationPin?) throws -> Found? {
        guard let bytes = files.registration else {
            try unlocking.checkPin(pin, nil, files)
            return nil
        }
        let registration = try StoredRegistration(bytes, at: hierarchy.registration)
        try unlocking.checkPin(pin, registration.info, files)
        return .registered(registration)
    }

    /// Refuses keys without a registration: it's missing or still arriving, or the keys are another program's.
    private func refuseKeysWithoutRegistration(_ files: EncryptionFiles) async throws {
        guard files.hasAnyKeyFile else { return }
        // Files in another program's format throw an error of their own.
        if let salt = try await hooks.fetchSalt(hierarchy) { _ = try SaltFile(salt) }
        if let passwordTest = files.passwordTest { _ = try KeyFile(passwordTest) }
        throw StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote is encrypted and has no registration: it is still arriving, or was damaged. \
            \(StoreSyncError.remedyForMissingRegistration(hierarchy))
            """
        )
    }
}
