import Foundation
import Operations
import RemoteStorage
import SyncCryptography

// An application that is there.
extension ApplicationRegistrationOperation {
    /// Joins an application; one of TICoreDataSync where it has no registration.
    func join(
        _ situation: Situation,
        _ registration: (info: RegistrationInfo, bytes: [UInt8])?,
        pin: ApplicationPin?,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        let isOther = pin.map { $0.epoch != registration?.info.epoch } ?? false
        if let pin, isOther, !request.startsAnew {
            throw try await unlocking.newEpoch(registration?.info, registration?.bytes, after: pin, context)
        }
        guard let registration, registration.info.isEncrypted else {
            if situation.removalNote != nil { throw await unlocking.removedClient() }
            if request.requiresEncryption { throw mismatch }
            let isNew = pin == nil || isOther
            if isNew, try await decide(.joiningUnencrypted, context) != .unencrypted { throw mismatch }
            let client = try await clientIdentifier(context)
            return try await join(unencrypted: situation, registration?.info, client, context)
        }
        let (info, bytes) = registration
        guard situation.files.passwordTest != nil else {
            return try await completeEncrypted(info, bytes, context)
        }
        return try await open(situation, info, bytes, pin: isOther ? nil : pin, nil, context)
    }

    func join(
        unencrypted situation: Situation,
        _ info: RegistrationInfo?,
        _ client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        let seal = ApplicationSeal(application: request.application, key: nil)
        let pin = ApplicationPin(encryption: nil, epoch: info?.epoch)
        return try await complete(situation, isOurs: info != nil, seal, pin, client, context)
    }

    /// Opens an encrypted application, by this device's keys or by the password, and puts this client in.
    func open(
        _ situation: Situation,
        _ info: RegistrationInfo,
        _ bytes: [UInt8],
        pin: ApplicationPin?,
        _ client: RemoteIdentifier?,
        trying password: Password? = nil,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        guard let passwordTest = situation.files.passwordTest else {
            throw StoreSyncError(.busy, "Another device is just registering \(request.application). Try again.")
        }
        // A client that is set up again proves the password as every new one does; what the former one kept goes first.
        if request.startsAnew { try await state.giveUpKeys(of: key, epoch: info.epoch, on: context.blockingExecutor) }
        let unlocked = try await unlocking.unlock(info, bytes, passwordTest, pin: pin, trying: password, context)
        var situation = situation
        try await refuseRemovedClient(&situation, unlocked.seal, context)
        let known = if let client { client } else { try await clientIdentifier(context) }
        // A salt file that is missing was not written yet by whoever died, or is still arriving: it's the same again.
        if !situation.files.hasSalt {
            try await hooks.saveSalt(SaltFile(for: unlocked.keyFile).bytes, hierarchy)
        }
        return try await complete(situation, isOurs: true, unlocked.seal, unlocked.pin, known, context)
    }

    /// Refuses a client that was removed from an encrypted application, by a note that is authentic.
    private func refuseRemovedClient(
        _ situation: inout Situation,
        _ seal: ApplicationSeal,
        _ context: OperationContext
    ) async throws {
        guard let note = situation.removalNote,
            let client = try await context.blocking({ [state, key] in try state.peekClientIdentifier(for: key) })
        else { return }
        guard let warning = try seal.warning(ofRemovalNote: note, on: RemoteIdentifier(client), hierarchy) else {
            throw await unlocking.removedClient()
        }
        situation.warnings.append(warning)
    }

    /// Completes an encrypted application of which there is only the registration.
    private func completeEncrypted(
        _ info: RegistrationInfo,
        _ bytes: [UInt8],
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        async let clients = hooks.listClients(hierarchy)
        async let documents = hooks.backend.list(hierarchy.documents)
        let isEmpty = try await (clients.isEmpty, documents.directoryIdentifiers.isEmpty) == (true, true)
        // Looked at again: whoever makes it may have come further meanwhile.
        let situation = try await look(for: nil, nil)
        if case .registered(let info, let bytes) = situation.found, situation.files.passwordTest != nil {
            return try await open(situation, info, bytes, pin: nil, nil, context)
        }
        guard isEmpty else {
            throw StoreSyncError(
                .encryptionDowngraded,
                """
                \(request.application) is encrypted, and \(hierarchy.passwordTest) is gone from the remote, or still \
                arriving. Nothing was written. Try again when everything has arrived; else restore it from a backup.
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
        let winners = try await look(for: client, nil)
        return try await open(winners, info, bytes, pin: nil, client, trying: new.password, context)
    }

    /// Where applications are moved to their place as a whole, nobody but this device makes a part of one: what it hasn't
    /// begun is still arriving.
    private func refuseToComplete(_ info: RegistrationInfo, _ context: OperationContext) async throws {
        let capabilities = try await hooks.backend.capabilities()
        let begun = try await context.blocking { [state, key] in try state.begunEpoch(for: key) }
        let arrivesWhole = capabilities.contains(.exclusiveDirectoryMove) && begun != info.epoch
        guard request.mayCreateApplication, capabilities.contains(.exclusiveCreate), !arrivesWhole else {
            throw StoreSyncError(
                .applicationIncomplete,
                """
                Of \(request.application) there is nothing but the registration: the rest is still arriving. Try again \
                then. If whoever made it was cut off, let that device register again, or remove \(hierarchy.root) from \
                the remote and begin anew.
                """
            )
        }
    }

    /// Completes what is half made, ours or somebody else's, and puts this client in.
    private func complete(
        _ situation: Situation,
        isOurs: Bool,
        _ seal: ApplicationSeal,
        _ pin: ApplicationPin,
        _ client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        // TICoreDataSync's own trees stay as they are.
        if isOurs, !situation.missingParts.isEmpty { try await completeStructure() }
        context.reportProgress(0.6)
        let path = hierarchy.deviceInfo(client)
        let known = situation.deviceInfo.flatMap { bytes in
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
            hasKeychains: situation.hasKeychains,
            warnings: situation.warnings
        )
    }
}
