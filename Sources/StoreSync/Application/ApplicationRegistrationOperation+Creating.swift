import Foundation
import Operations
import RemoteStorage
import SyncCryptography

// Creating an application that doesn't exist yet, or only in part.
extension ApplicationRegistrationOperation {
    /// An application that is about to be created.
    struct NewApplication: Sendable {
        var registration: StoredRegistration
        var seal: ApplicationSeal
        /// The file that wraps the master key, if the application is encrypted.
        var keyFile: KeyFile?
        /// The password that encrypts it; the winner of a race may have been given the same.
        var password: Password?

        var info: RegistrationInfo { registration.info }

        var pin: ApplicationPin {
            ApplicationPin(encryption: info.isEncrypted ? info.encryption : nil, epoch: info.epoch, keyFile)
        }
    }

    /// The creation of an application by its first client.
    struct Creation: Sendable {
        let application: NewApplication
        let client: RemoteIdentifier
        /// The proof that it succeeds the application that it replaces, if there is one.
        var proof: SuccessorProof?

        var membership: Membership {
            Membership(client: client, seal: application.seal, pin: application.pin)
        }

        /// What this device knows of the application that another device created first.
        var knowledge: Knowledge { Knowledge(client: client, password: application.password) }
    }

    func refuseToCreate(_ pin: ApplicationPin?, _ found: Found) throws {
        if pin != nil {
            // A user who sets the device up again confirms that the former application is lost.
            if request.registersAgain, request.mayCreateApplication { return }
            if case .empty = found { throw registrationGone }
            throw StoreSyncError(
                .applicationMissing,
                """
                \(request.application) no longer exists at \(hooks.backend.identity). Is the share mounted? Nothing \
                was created. If the application is gone for good, set this device up again (register --again).
                """
            )
        }
        if let store = request.missingStore {
            let absence = "there is no application \(request.application) at \(hooks.backend.identity)"
            throw StoreSyncError.nothingToSynchronize(store, absence)
        }
        guard request.mayCreateApplication else {
            throw StoreSyncError(
                .applicationMissing,
                """
                There is no application \(request.application) at \(hooks.backend.identity). Check both names; pushing \
                or registering creates it.
                """
            )
        }
    }

    func create(_ remote: RemoteState, _ context: OperationContext) async throws -> ApplicationRegistration {
        async let applications = hooks.listApplications()
        async let namesAside = replacement.listNamesAside()
        try await request.application.refuseLookalike(among: applications)
        guard try await !namesAside.contains(where: isReplaced) else {
            throw StoreSyncError(
                .applicationIncomplete,
                """
                Another device is replacing \(request.application) with a new application, or was interrupted \
                meanwhile. Nothing was created. Try again. If the error persists, set this device up with the \
                passcode, which restores the former one.
                """
            )
        }
        let new = try await newApplication(context)
        try await refuseDowngrade(to: new, context)
        let creation = Creation(application: new, client: try await clientIdentifier(context))
        // After a setup, what this device knew of a former application's documents no longer applies.
        let begun = request.isSetup ? BegunReplacement(epoch: new.info.epoch, client: creation.client.rawValue) : nil
        let staged = try await createsAside(remote) ? stage(creation, context) : nil
        let isOurs = try await publish(creation, replacing: begun, context) { [self] in
            guard let staged else { return try await createInPlace(creation, context) }
            return try await publishStaged(staged, new, context)
        }
        guard isOurs else { return try await joinWinner(creation, context) }
        return registration(of: creation.membership, didCreate: true)
    }

    /// Whether a directory's name says that the application was moved aside, to be replaced.
    private func isReplaced(_ name: String) -> Bool {
        AsideName(name).map { $0.application == request.application && !$0.isRemoving } ?? false
    }

    /// Publishes a new application and remembers it, even if this operation is cancelled meanwhile.
    ///
    /// `write` writes the application, and returns `false` if another device was faster; so does this function. `begun` is an
    /// interrupted replacement that this completes.
    func publish(
        _ creation: Creation,
        replacing begun: BegunReplacement? = nil,
        _ context: OperationContext,
        by write: @escaping @Sendable () async throws -> Bool
    ) async throws -> Bool {
        try Task.checkCancellation()
        // From here on the application may exist, and an interruption must not hide that from this device.
        return try await context.shielded { [self] in
            guard try await write() else { return false }
            context.reportProgress(0.8)
            try await remember(creation.membership, replacing: begun, context)
            return true
        }
    }

    /// Refuses to create an encrypted application again without encryption, even on a device that is set up again.
    private func refuseDowngrade(to new: NewApplication, _ context: OperationContext) async throws {
        let wasEncrypted = try await context.blocking { [state, key] in try state.pin(for: key)?.isEncrypted ?? false }
        guard wasEncrypted, !new.info.isEncrypted else { return }
        throw StoreSyncError(
            .encryptionDowngraded,
            """
            \(request.application) was encrypted when this device last saw it, and this device doesn't create it again \
            without encryption. Nothing was written. Give a password, or use another state directory (--state).
            """
        )
    }

    /// Whether the application is built in a staging directory, and not in place.
    ///
    /// Throws if the storage supports neither.
    private func createsAside(_ remote: RemoteState) async throws -> Bool {
        let capabilities = try await hooks.backend.capabilities()
        if case .nothing = remote.found, capabilities.contains(.exclusiveDirectoryMove) { return true }
        if capabilities.contains(.exclusiveCreate) { return false }
        throw StoreSyncError(
            .unsupportedStorage,
            """
            \(hooks.backend.identity) can neither create a file nor move a directory exclusively: two devices that \
            register first could overwrite each other. Nothing was created. If the server or the network was faulty \
            just now, try again.
            """
        )
    }

    /// Asks whether to encrypt, and creates the keys, for the existing registration if there is one.
    func newApplication(
        completing existing: StoredRegistration? = nil,
        _ context: OperationContext
    ) async throws -> NewApplication {
        let decision = try await unlocking.decide(.newApplication, context)
        guard case .encrypted(let password) = decision else {
            guard existing == nil else {
                throw StoreSyncError(
                    .encryptionMismatch,
                    "\(request.application) is encrypted, but was to be joined without encryption. Nothing was written. Give a password for it."
                )
            }
            guard !request.requiresEncryption else { throw mismatch }
            let registration = StoredRegistration(.make(of: request.application, encrypted: false))
            let seal = ApplicationSeal(application: request.application, key: nil)
            return NewApplication(registration: registration, seal: seal)
        }
        let registration = existing ?? StoredRegistration(.make(of: request.application, encrypted: true))
        guard let epoch = UUID(uuidString: registration.info.epoch) else { preconditionFailure("an epoch is a UUID") }
        let master = MasterKey()
        let keyFile = try await KeyFile.create(
            wrapping: master,
            with: password,
            epoch: epoch,
            registration: registration.bytes,
            parameters: request.passwordParameters ?? .moderate,
            executor: context.blockingExecutor
        )
        let seal = ApplicationSeal(application: request.application, key: EpochKey(master: master, epoch: epoch))
        return NewApplication(registration: registration, seal: seal, keyFile: keyFile, password: password)
    }

    /// Joins the application of the device that was first, under the decision that was just made.
    private func joinWinner(
        _ creation: Creation,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        let client = creation.client
        let remote = try await inspect(for: client, nil)
        guard case .registered(let registration) = remote.found else {
            throw StoreSyncError(.busy, "Another device is registering \(request.application) now. Try again.")
        }
        let info = registration.info
        guard info.isEncrypted == creation.application.info.isEncrypted else {
            throw info.isEncrypted
                ? StoreSyncError(
                    .encryptionMismatch,
                    "Another device has just created \(request.application) with encryption. Join it with its password."
                ) : mismatch
        }
        guard info.isEncrypted else { return try await join(unencrypted: remote, info, client, context) }
        return try await open(remote, registration, knowing: creation.knowledge, context)
    }

    // MARK: In a staging directory

    /// Builds the application in a staging directory, from which at most one device moves its own into place.
    func stage(_ creation: Creation, _ context: OperationContext) async throws -> ApplicationHierarchy {
        let name = ApplicationHierarchy.stagingName(UUID().uuidString)
        let aside = try hierarchy.staged(as: name)
        // Recorded first, so that this device knows what to clean up, whatever happens next.
        try await context.blocking { [state, key] in try state.recordStaging(name: name, for: key) }
        staged = (name, aside, context)
        do {
            try await putTogether(creation, in: aside, context)
        } catch let error as RemoteError where error.path?.isEqualToOrInside(aside.root) == true {
            throw namingRemote(error)
        }
        return aside
    }

    /// Moves the staged application into place.
    ///
    /// Returns whether the application in place is this one.
    func publishStaged(
        _ aside: ApplicationHierarchy,
        _ new: NewApplication,
        _ context: OperationContext
    ) async throws -> Bool {
        context.reportProgress(0.8)
        guard try await hooks.publishApplication(stagedAt: aside.root, hierarchy) else {
            await removeStaged()
            // The refusal may be the answer to our own request, which a retry sent twice.
            return try await hooks.fetchRegistration(hierarchy) == new.registration.bytes
        }
        if let name = staged.take()?.name {
            try await context.blocking { [state, key] in try state.forgetStaging(name: name, for: key) }
        }
        return true
    }

    private func putTogether(
        _ creation: Creation,
        in aside: ApplicationHierarchy,
        _ context: OperationContext
    ) async throws {
        let (new, client) = (creation.application, creation.client)
        try await hooks.createApplicationDirectoryStructure(aside)
        context.reportProgress(0.5)
        let device = deviceInfo(creation.membership)
        async let readMe: Void = hooks.saveReadMe(request.readMe, aside)
        async let registration = hooks.createRegistration(new.registration.bytes, aside)
        async let passwordTest = createPasswordTest(new, aside)
        async let salt: Void = saveSalt(new, aside)
        async let saved: Void = hooks.saveDeviceInfo(device, of: client, aside)
        async let proven: Void? = creation.proof.mapAsync {
            try await self.replacement.saveSuccessor($0.bytes, of: $0.epoch, aside)
        }
        _ = try await (readMe, registration, passwordTest, salt, saved, proven)
    }

    /// Returns the same error with the final path and the remote's name, since users don't know the staging directory's.
    private func namingRemote(_ error: RemoteError) -> RemoteError {
        guard let path = error.path else { return error }
        let finalPath = (hierarchy.root.components + path.components.dropFirst()).joined(separator: "/")
        let message = error.message
            .replacingOccurrences(of: "“\(path)”", with: "“\(finalPath)” on the remote \(hooks.backend.identity)")
        return RemoteError(error.code, message, cause: error)
    }

    func removeStaged() async {
        guard let (name, aside, context) = staged.take() else { return }
        guard (try? await hooks.removeStagedApplication(at: aside.root)) != nil else { return }
        try? await context.blocking { [state, key] in try state.forgetStaging(name: name, for: key) }
    }

    // MARK: In place

    /// Creates the registration, which at most one device can create, then the keys, then the rest.
    private func createInPlace(_ creation: Creation, _ context: OperationContext) async throws -> Bool {
        let registration = creation.application.registration
        // If this device dies in between, it recognizes the partial application as its own.
        try await context.blocking { [state, key] in try state.noteBegun(epoch: registration.info.epoch, for: key) }
        guard try await hooks.createRegistration(registration.bytes, hierarchy) else { return false }
        return try await completeInPlace(creation)
    }

    /// Completes an application that has a registration and no keys yet.
    func completeInPlace(_ creation: Creation) async throws -> Bool {
        let new = creation.application
        guard try await createPasswordTest(new, hierarchy) else { return false }
        async let structure: Void = completeStructure()
        async let salt: Void = saveSalt(new, hierarchy)
        _ = try await (structure, salt)
        try await hooks.saveDeviceInfo(deviceInfo(creation.membership), of: creation.client, hierarchy)
        return true
    }

    /// Creates the key file, unless one exists.
    ///
    /// Returns whether the key file is this one, or none is needed.
    private func createPasswordTest(_ new: NewApplication, _ hierarchy: ApplicationHierarchy) async throws -> Bool {
        guard let keyFile = new.keyFile else { return true }
        return try await hooks.createPasswordTest(keyFile.bytes, hierarchy)
    }

    private func saveSalt(_ new: NewApplication, _ hierarchy: ApplicationHierarchy) async throws {
        guard let keyFile = new.keyFile else { return }
        try await hooks.saveSalt(SaltFile(for: keyFile).bytes, hierarchy)
    }

    func completeStructure() async throws {
        async let structure: Void = hooks.createApplicationDirectoryStructure(hierarchy)
        async let readMe: Void = hooks.saveReadMe(request.readMe, hierarchy)
        _ = try await (structure, readMe)
    }
}
