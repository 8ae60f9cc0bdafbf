import Foundation
import Operations
import RemoteStorage
import SyncCryptography

/// What a ``PasscodeSetup`` found on the remote.
struct PasscodeExamination: Sendable {
    enum Finding: Sendable, Hashable {
        /// No application, or one that was only begun.
        case nothing
        /// None, although this device knows one.
        case missing
        /// One that this device isn't set up for.
        case existing
        /// The one that this device is set up for.
        case current
    }

    var finding: Finding
    /// The application's registration, byte for byte; `nil` if there is none.
    var registration: [UInt8]?
    /// Whether the application's directory is there, or was moved aside.
    var hasDirectory = true
    /// Whether this device is set up anew, as another client.
    var isDeregistered = false
    /// What is wrong with what was found.
    var trouble: StoreSyncError?

    /// Whether what somebody decided about `other` holds for this.
    func isSame(as other: PasscodeExamination) -> Bool {
        (finding == .current ? .existing : finding) == (other.finding == .current ? .existing : other.finding)
            && registration == other.registration
    }
}

/// Looks what there is of an application, and what it needs to be set up on this device. Changes nothing on the remote.
actor PasscodeExaminationOperation: Operation {
    private let hierarchy: ApplicationHierarchy
    private let hooks: any ApplicationRegistrationHooks
    private let replacement: any ApplicationReplacementHooks
    private let state: StateDirectory
    private let didFail: @Sendable (StoreSyncError) async -> Void

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - application: The application.
    ///   - backend: Where it may be.
    ///   - state: This device's memory.
    ///   - didFail: Is told of every failure, also where the operation is tried again.
    init(
        _ application: RemoteIdentifier,
        backend: any RemoteBackend,
        state: StateDirectory,
        didFail: @escaping @Sendable (StoreSyncError) async -> Void = { _ in }
    ) {
        hierarchy = ApplicationHierarchy(application)
        hooks = backend.applicationRegistrationHooks
        replacement = backend.applicationReplacementHooks
        self.state = state
        self.didFail = didFail
    }

    private var key: ApplicationKey {
        ApplicationKey(remote: hooks.backend.identity, application: hierarchy.application.rawValue)
    }

    private var unlocking: ApplicationUnlocking {
        ApplicationUnlocking(hierarchy, hooks.backend, state) { [application = hierarchy.application] _ in
            throw StoreSyncError.passwordRequired(application)
        }
    }

    /// Looks.
    func main(_ context: OperationContext) async throws -> PasscodeExamination {
        do {
            return try await translatingErrors { try await examine(context) }
        } catch let error as StoreSyncError {
            await didFail(error)
            throw error
        }
    }

    private func examine(_ context: OperationContext) async throws -> PasscodeExamination {
        async let encryption = EncryptionFiles.fetch(hooks, hierarchy)
        async let parts = hooks.missingParts(hierarchy)
        async let aside = AsideApplication.list(hierarchy, hooks, replacement)
        async let clients = hooks.listClients(hierarchy)
        async let documents = hooks.backend.list(hierarchy.documents)
        let (files, missing) = try await (encryption, parts)
        let replaced = try await aside.first { !$0.name.isRemoving }
        let (known, made) = try await (clients, documents.directoryIdentifiers)
        let isHalf = known.isEmpty && made.isEmpty && files.passwordTest == nil
        guard missing != nil else { return try await examineAbsent(replaced, context) }
        let pin = try await context.blocking { [state, key] in try state.pin(for: key) }
        var examination = PasscodeExamination(finding: .existing, registration: files.registration)
        do {
            guard let registration = files.registration else {
                if pin == nil, isHalf, !files.hasSalt {
                    examination.finding = .nothing
                } else {
                    try unlocking.checkPin(pin, nil, files)
                    examination.trouble = incomplete
                }
                return examination
            }
            let info = try RegistrationInfo(registration, at: hierarchy.registration)
            if pin == nil, isHalf, info.isEncrypted {
                examination.finding = .nothing
                return examination
            }
            try await examine(info, registration, files, context, &examination)
        } catch let error as StoreSyncError {
            examination.trouble = error
        }
        return examination
    }

    /// The application's directory isn't there: nor was it ever, or it was moved aside, or it can't be seen from here.
    private func examineAbsent(
        _ replaced: AsideApplication?,
        _ context: OperationContext
    ) async throws -> PasscodeExamination {
        if let replaced { return PasscodeExamination(finding: .existing, registration: replaced.registration) }
        guard try await context.blocking({ [state, key] in try state.pin(for: key) }) != nil else {
            return PasscodeExamination(finding: .nothing, hasDirectory: false)
        }
        return PasscodeExamination(
            finding: .missing,
            hasDirectory: false,
            trouble: StoreSyncError(
                .applicationMissing,
                """
                \(hierarchy.application) isn't at \(hooks.backend.identity) any more. Is the share mounted? Nothing was \
                created. If the application is gone for good, make it anew.
                """
            )
        )
    }

    private func examine(
        _ info: RegistrationInfo,
        _ registration: [UInt8],
        _ files: EncryptionFiles,
        _ context: OperationContext,
        _ examination: inout PasscodeExamination
    ) async throws {
        let keyFile = try keyFile(files)
        let begun = try await context.blocking { [state, key] in try state.begunReplacement(for: key) }
        let isOurs = begun?.epoch == info.epoch && keyFile?.epoch.uuidString == begun?.epoch
        if let begun, isOurs { try await adopt(begun, info, context) }
        let (pin, client) = try await context.blocking { [state, key] in
            (try state.pin(for: key), try state.peekClientIdentifier(for: key))
        }
        try unlocking.checkPin(pin, info, files)
        if let pin, pin.epoch != info.epoch {
            examination.isDeregistered = true
            throw try await unlocking.newEpoch(info, registration, after: pin, context)
        }
        if let keyFile, keyFile.epoch.uuidString != info.epoch {
            throw StoreSyncError(
                .applicationIncomplete,
                """
                The keys of \(hierarchy.application) on the remote belong to another application than its registration: they \
                are still arriving, or making it anew was cut off. Wait if they may arrive; else make it anew.
                """
            )
        }
        guard let pin, let own = try client.map({ try RemoteIdentifier($0) }) else { return }
        async let deviceInfo = hooks.fetchDeviceInfo(of: own, hierarchy)
        let note = try await hooks.fetchDeletedClientNote(own, hierarchy)
        let isKnown = try await deviceInfo != nil
        let master = try await state.masterKey(for: key, epoch: info.epoch, on: context.blockingExecutor)
        let hasKeys = master != nil
        if let note, isAuthentic(note, on: own, info, master) {
            examination.isDeregistered = true
            throw await unlocking.removedClient()
        }
        guard let keyFile, hasKeys, !isOurs, isKnown else { return }
        // With the keys, this asks nobody.
        _ = try await unlocking.unlock(info, registration, keyFile.bytes, pin: pin, context)
        examination.finding = .current
    }

    /// Whether a note says authentically that a client was removed.
    ///
    /// A device without the keys can't tell, and is asked for the passcode in any case: it is set up as another client then.
    private func isAuthentic(
        _ note: [UInt8],
        on client: RemoteIdentifier,
        _ info: RegistrationInfo,
        _ master: MasterKey?
    ) -> Bool {
        guard info.isEncrypted else { return true }
        guard let master, let epoch = UUID(uuidString: info.epoch) else { return true }
        let seal = ApplicationSeal(
            application: hierarchy.application,
            key: EpochKey(master: master, epoch: epoch)
        )
        return seal.warning(ofRemovalNote: note, on: client, hierarchy) == nil
    }

    private func keyFile(_ files: EncryptionFiles) throws(StoreSyncError) -> KeyFile? {
        guard let bytes = files.passwordTest else { return nil }
        do {
            return try KeyFile(bytes)
        } catch {
            throw StoreSyncError(error, at: hierarchy.passwordTest)
        }
    }

    /// This device made the application and was cut off before it knew that it had.
    private func adopt(_ begun: BegunReplacement, _ info: RegistrationInfo, _ context: OperationContext) async throws {
        let pin = ApplicationPin(encryption: info.encryption, epoch: info.epoch)
        try await context.blocking { [state, key] in
            guard try state.pin(for: key)?.epoch != begun.epoch else { return }
            try state.commitReplacement(begun, pin, for: key)
        }
    }

    private var incomplete: StoreSyncError {
        StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote has no registration: it is still arriving, or was damaged. Try again when \
            everything has arrived.
            """
        )
    }
}
