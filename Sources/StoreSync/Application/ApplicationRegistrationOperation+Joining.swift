import Foundation
import Operations
import RemoteStorage
import SyncCryptography

// Joining an existing application.
extension ApplicationRegistrationOperation {
    /// Joins an application, which is TICoreDataSync's if it has no registration.
    func join(
        _ remote: RemoteState,
        _ registration: (info: RegistrationInfo, bytes: [UInt8])?,
        pin: ApplicationPin?,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        let isOther = pin.map { $0.epoch != registration?.info.epoch } ?? false
        if let pin, isOther, !request.registersAgain {
            throw try await unlocking.newEpoch(registration?.info, registration?.bytes, after: pin, context)
        }
        guard let registration, registration.info.isEncrypted else {
            if remote.removalNote != nil { throw await unlocking.removedClient() }
            if request.requiresEncryption { throw mismatch }
            let isNew = pin == nil || isOther
            if isNew, try await decide(.joiningUnencrypted, context) != .unencrypted { throw mismatch }
            let client = try await clientIdentifier(context)
            return try await join(unencrypted: remote, registration?.info, client, context)
        }
        let (info, bytes) = registration
        guard remote.files.passwordTest != nil else {
            return try await completeEncrypted(info, bytes, context)
        }
        return try await open(remote, info, bytes, pin: isOther ? nil : pin, nil, context)
    }

    func join(
        unencrypted remote: RemoteState,
        _ info: RegistrationInfo?,
        _ client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        let seal = ApplicationSeal(application: request.application, key: nil)
        let pin = ApplicationPin(encryption: nil, epoch: info?.epoch)
        return try await complete(remote, isOurs: info != nil, seal, pin, client, context)
    }

    /// Opens an encrypted application with this device's keys or the password, and adds this client.
    func open(
        _ remote: RemoteState,
        _ info: RegistrationInfo,
        _ bytes: [UInt8],
        pin: ApplicationPin?,
        _ client: RemoteIdentifier?,
        trying password: Password? = nil,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        guard let passwordTest = remote.files.passwordTest else {
            throw StoreSyncError(.busy, "Another device is registering \(request.application) now. Try again.")
        }
        // A client that is set up again proves the password like every new client. The former client's keys are deleted
        // first.
        if request.registersAgain {
            try await state.giveUpKeys(of: key, epoch: info.epoch, on: context.blockingExecutor)
        }
        let unlocked = try await unlocking.unlock(info, bytes, passwordTest, pin: pin, trying: password, context)
        var remote = remote
        try await refuseRemovedClient(&remote, unlocked.seal, context)
        let known = if let client { client } else { try await clientIdentifier(context) }
        // A missing salt file is still arriving, or its device died before writing it. Its content is the same either
        // way.
        if !remote.files.hasSalt {
            try await hooks.saveSalt(SaltFile(for: unlocked.keyFile).bytes, hierarchy)
        }
        return try await complete(remote, isOurs: true, unlocked.seal, unlocked.pin, known, context)
    }

    /// Refuses a client if an authentic note says that it was removed from the encrypted application.
    private func refuseRemovedClient(
        _ remote: inout RemoteState,
        _ seal: ApplicationSeal,
        _ context: OperationContext
    ) async throws {
        guard let note = remote.removalNote,
            let client = try await context.blocking({ [state, key] in try state.peekClientIdentifier(for: key) })
        else { return }
        guard let warning = try seal.warning(ofRemovalNote: note, on: RemoteIdentifier(client), hierarchy) else {
            throw await unlocking.removedClient()
        }
        remote.warnings.append(warning)
    }

    /// Completes an encrypted application that consists of the registration alone.
    private func completeEncrypted(
        _ info: RegistrationInfo,
        _ bytes: [UInt8],
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        async let clients = hooks.listClients(hierarchy)
        async let documents = hooks.backend.documentRegistrationHooks.listDocuments(hierarchy)
        let isEmpty = try await (clients.isEmpty, documents.isEmpty) == (true, true)
        // Checked again, since the device that creates the application may have continued meanwhile.
        let remote = try await inspect(for: nil, nil)
        if case .registered(let info, let bytes) = remote.found, remote.files.passwordTest != nil {
            return try await open(remote, info, bytes, pin: nil, nil, context)
        }
        guard isEmpty else {
            throw StoreSyncError(
                .encryptionDowngraded,
                """
                \(request.application) is encrypted, and \(hierarchy.passwordTest) is missing on the remote: it was \
                removed, or is still arriving. Nothing was written. Try again when everything has arrived; else \
                restore it from a backup.
                """
            )
        }
        try await refuseToComplete(info, context)
        let new = try await newApplication(completing: (info, bytes), context)
        let client = try await clientIdentifier(context)
        if try await completeInPlace(new, client) {
            try await remember(new.pin, new.seal, context)
            return registration(of: client, new.seal, didCreate: true)
        }
        let winners = try await inspect(for: client, nil)
        return try await open(winners, info, bytes, pin: nil, client, trying: new.password, context)
    }

    /// Refuses to complete an application that is still arriving.
    ///
    /// Where the storage moves directories exclusively, other devices create an application as a whole. If it's partial
    /// and this device hasn't begun it, the rest is still arriving.
    private func refuseToComplete(_ info: RegistrationInfo, _ context: OperationContext) async throws {
        let capabilities = try await hooks.backend.capabilities()
        let begun = try await context.blocking { [state, key] in try state.begunEpoch(for: key) }
        let arrivesWhole = capabilities.contains(.exclusiveDirectoryMove) && begun != info.epoch
        guard request.mayCreateApplication, capabilities.contains(.exclusiveCreate), !arrivesWhole else {
            throw StoreSyncError(
                .applicationIncomplete,
                """
                \(request.application) has nothing but the registration: the rest is still arriving. Try again when \
                everything has arrived. If the device that created it was interrupted, let that device register again, \
                or remove \(hierarchy.root) from the remote and start over.
                """
            )
        }
    }

    /// Completes a partial application, this device's or another's, and adds this client.
    private func complete(
        _ remote: RemoteState,
        isOurs: Bool,
        _ seal: ApplicationSeal,
        _ pin: ApplicationPin,
        _ client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        // TICoreDataSync's own trees stay as they are.
        if isOurs, !remote.missingParts.isEmpty { try await completeStructure() }
        context.reportProgress(0.6)
        let path = hierarchy.deviceInfo(client)
        let known = remote.deviceInfo.flatMap { bytes in
            try? DeviceInfo(seal.open(bytes, as: .deviceInfo(client), at: path), at: path)
        }
        if known == nil {
            try await hooks.createClientDeviceDirectory(client, hierarchy)
            try await hooks.saveDeviceInfo(deviceInfo(of: client, seal), of: client, hierarchy)
        }
        try await remember(pin, seal, context)
        return registration(
            of: client,
            seal,
            didCreate: false,
            hasKeychains: remote.hasKeychains,
            warnings: remote.warnings
        )
    }
}
