import Foundation
import Operations
import RemoteStorage
import SyncCryptography

// Joining an existing application.
extension ApplicationRegistrationOperation {
    /// Joins an application, which is TICoreDataSync's if it has no registration.
    func join(
        _ remote: RemoteState,
        _ registration: StoredRegistration?,
        pin: ApplicationPin?,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        let isOther = pin.map { $0.epoch != registration?.info.epoch } ?? false
        if let pin, isOther, !request.registersAgain {
            throw try await unlocking.newEpoch(registration, after: pin, context)
        }
        guard let registration, registration.info.isEncrypted else {
            var remote = remote
            let seal = ApplicationSeal(application: request.application, key: nil)
            try await refuseRemovedClient(&remote, seal)
            if request.requiresEncryption { throw mismatch }
            let isNew = pin == nil || isOther
            if isNew, try await unlocking.decide(.joiningUnencrypted, context) != .unencrypted { throw mismatch }
            let client = try await clientIdentifier(context)
            return try await join(unencrypted: remote, registration?.info, client, context)
        }
        guard remote.files.passwordTest != nil else { return try await completeEncrypted(registration, context) }
        return try await open(remote, registration, knowing: Knowledge(pin: isOther ? nil : pin), context)
    }

    func join(
        unencrypted remote: RemoteState,
        _ info: RegistrationInfo?,
        _ client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        let seal = ApplicationSeal(application: request.application, key: nil)
        let pin = ApplicationPin(encryption: nil, epoch: info?.epoch)
        return try await complete(
            remote,
            isLegacy: info == nil,
            Membership(client: client, seal: seal, pin: pin),
            context
        )
    }

    /// What this device knows of an encrypted application before it opens it.
    struct Knowledge: Sendable {
        /// Its memory of this epoch.
        var pin: ApplicationPin?
        /// Its identifier as a client, if it has taken one.
        var client: RemoteIdentifier?
        /// A password to try before the delegate is asked.
        var password: Password?
    }

    /// Opens an encrypted application with this device's keys or the password, and adds this client.
    func open(
        _ remote: RemoteState,
        _ registration: StoredRegistration,
        knowing known: Knowledge,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        guard let passwordTest = remote.files.passwordTest else {
            throw StoreSyncError(.busy, "Another device is registering \(request.application) now. Try again.")
        }
        let sealed = ApplicationUnlocking.Sealed(registration: registration, passwordTest: passwordTest, pin: known.pin)
        let unlocked = try await unlocking.unlock(sealed, trying: known.password, context)
        var remote = remote
        remote.warnings += unlocked.warnings
        resolveRegistersAgain(&remote, unlocked.seal)
        try await refuseRemovedClient(&remote, unlocked.seal)
        let client = if let client = known.client { client } else { try await clientIdentifier(context) }
        // A missing salt file is still arriving, or its device died before writing it. Its content is the same either
        // way.
        if !remote.files.hasSalt {
            try await hooks.saveSalt(SaltFile(for: unlocked.keyFile).bytes, hierarchy)
        }
        let membership = Membership(client: client, seal: unlocked.seal, pin: unlocked.pin)
        return try await complete(remote, isLegacy: false, membership, context)
    }

    /// Refuses a client if an authentic note says that it was removed from the application.
    private func refuseRemovedClient(_ remote: inout RemoteState, _ seal: ApplicationSeal) async throws {
        let notes = ClientNotes(subject: .application(hierarchy), seal: seal, hooks: hooks)
        let (authentic, warnings) = notes.authentic(remote.removalNotes)
        guard authentic.isEmpty else {
            if request.isSetup { throw RemovedClient() }
            throw await unlocking.removedClient()
        }
        remote.warnings += warnings
    }

    /// Completes an encrypted application that consists of the registration alone.
    private func completeEncrypted(
        _ registration: StoredRegistration,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        async let clients = hooks.listClients(hierarchy)
        async let documents = hooks.backend.documentRegistrationHooks.listDocuments(hierarchy)
        let isEmpty = try await (clients.isEmpty, documents.isEmpty) == (true, true)
        // Checked again, since the device that creates the application may have continued meanwhile.
        let remote = try await inspect(for: nil, nil)
        if case .registered(let registration) = remote.found, remote.files.passwordTest != nil {
            return try await open(remote, registration, knowing: Knowledge(), context)
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
        try unlocking.refuseForeign(registration.info)
        try await refuseToComplete(registration.info, context)
        let application = try await newApplication(completing: registration, context)
        let creation = Creation(application: application, client: try await clientIdentifier(context))
        if try await publish(creation, context, by: { [self] in try await completeInPlace(creation) }) {
            return self.registration(of: creation.membership, didCreate: true)
        }
        let winners = try await inspect(for: creation.client, nil)
        return try await open(winners, registration, knowing: creation.knowledge, context)
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
        isLegacy: Bool,
        _ membership: Membership,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        // TICoreDataSync's own trees stay as they are.
        if !isLegacy, !remote.missingParts.isEmpty { try await completeStructure() }
        context.reportProgress(0.6)
        let (client, seal) = (membership.client, membership.seal)
        if remote.deviceInfo.flatMap({ try? seal.deviceInfo($0, of: client, hierarchy) }) == nil {
            try await hooks.createClientDeviceDirectory(client, hierarchy)
            try await hooks.saveDeviceInfo(deviceInfo(membership), of: client, hierarchy)
        }
        try await remember(membership, context)
        return registration(
            of: membership,
            didCreate: false,
            hasKeychains: remote.hasKeychains,
            warnings: remote.warnings
        )
    }
}
