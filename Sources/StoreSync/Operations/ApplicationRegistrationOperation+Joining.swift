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
        if isOther, !request.startsAnew { throw StoreSyncError.newEpoch() }
        if situation.wasDeleted {
            throw StoreSyncError.deregistered("this client was removed from the application")
        }
        guard let registration, registration.info.isEncrypted else {
            if request.requiresEncryption { throw mismatch }
            if pin == nil, try await decide(.joiningUnencrypted, context) != .unencrypted { throw mismatch }
            let client = try await clientIdentifier(context)
            let seal = ApplicationSeal(application: request.application, key: nil)
            let pin = ApplicationPin(encryption: nil, epoch: registration?.info.epoch)
            return try await complete(situation, isOurs: registration != nil, seal, pin, client, context)
        }
        let (info, bytes) = registration
        guard situation.files.passwordTest != nil else {
            return try await completeEncrypted(situation, info, bytes, context)
        }
        return try await open(situation, info, bytes, pin: isOther ? nil : pin, nil, context)
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
        guard info.isEncrypted else {
            // Nobody was asked for keys: it's the unencrypted application of whoever was first.
            let client = if let client { client } else { try await clientIdentifier(context) }
            let seal = ApplicationSeal(application: request.application, key: nil)
            let pin = ApplicationPin(encryption: nil, epoch: info.epoch)
            return try await complete(situation, isOurs: true, seal, pin, client, context)
        }
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
        _ situation: Situation,
        _ info: RegistrationInfo,
        _ bytes: [UInt8],
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        async let clients = hooks.listClients(hierarchy)
        async let documents = hooks.backend.list(hierarchy.documents)
        guard try await (clients.isEmpty, documents.directoryIdentifiers.isEmpty) == (true, true) else {
            throw StoreSyncError(
                .encryptionDowngraded,
                """
                \(request.application) is encrypted, and \(hierarchy.passwordTest) is gone from the remote, or still \
                arriving. Nothing was written. Try again when everything has arrived; else restore it from a backup.
                """
            )
        }
        // Where applications are moved to their place as a whole, nobody makes a part of one: it's still arriving.
        guard try await !hooks.backend.capabilities().contains(.exclusiveDirectoryMove) else {
            throw StoreSyncError(
                .applicationIncomplete,
                """
                Of \(request.application) there is nothing but the registration: the rest is still arriving. Try again \
                then. If whoever made it was cut off, remove \(hierarchy.root) from the remote and begin anew.
                """
            )
        }
        let new = try await newApplication(completing: (info, bytes), context)
        let client = try await clientIdentifier(context)
        if try await completeInPlace(new, client) {
            try await remember(new.pin, new.seal, context)
            return registration(of: client, new.seal, didCreate: true)
        }
        let situation = try await look(for: client, nil)
        return try await open(situation, info, bytes, pin: nil, client, trying: new.password, context)
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
        return registration(of: client, seal, didCreate: false)
    }
}
