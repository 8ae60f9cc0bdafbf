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
        if situation.wasDeleted { throw await unlocking.removedClient() }
        guard let registration, registration.info.isEncrypted else {
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
        let unlocked = try await unlocking.unlock(info, bytes, passwordTest, pin: pin, trying: password, context)
        let known = if let client { client } else { try await clientIdentifier(context) }
        // A salt file that is missing was not written yet by whoever died, or is still arriving: it's the same again.
        if !situation.files.hasSalt {
            try await hooks.saveSalt(SaltFile(for: unlocked.keyFile).bytes, hierarchy)
        }
        return try await complete(situation, isOurs: true, unlocked.seal, unlocked.pin, known, context)
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
        return registration(of: client, seal, didCreate: false, hasKeychains: situation.hasKeychains)
    }
}
