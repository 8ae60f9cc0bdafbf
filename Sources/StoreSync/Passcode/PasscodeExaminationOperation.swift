import Foundation
import Operations
import RemoteStorage
import SyncCryptography

/// The application that a ``PasscodeSetup`` found on the remote.
struct PasscodeExamination: Sendable {
    enum Finding: Sendable, Hashable {
        /// No application exists, or only the first files of one.
        case nothing
        /// No application exists, although this device has registered with one.
        case missing
        /// An application exists that this device isn't set up for.
        case existing
        /// The application exists, and this device is set up for it.
        case current
    }

    var finding: Finding
    /// The application's registration, byte for byte; `nil` if it has none.
    var registration: [UInt8]?
    /// Whether the application's directory exists, under its own name or moved aside.
    var hasDirectory = true
    /// Whether this device was deregistered and has to register as another client.
    var isDeregistered = false
    /// The problem that the examination found; `nil` if there is none.
    var trouble: StoreSyncError?

    /// Whether a decision about `other` also applies to this examination.
    func isSame(as other: PasscodeExamination) -> Bool {
        (finding == .current ? .existing : finding) == (other.finding == .current ? .existing : other.finding)
            && registration == other.registration
    }
}

/// Examines an application on the remote, and what its setup on this device needs.
///
/// It changes nothing on the remote.
actor PasscodeExaminationOperation: Operation {
    private let hierarchy: ApplicationHierarchy
    private let hooks: any ApplicationRegistrationHooks
    private let replacement: any ApplicationReplacementHooks
    private let state: StateDirectory
    private let didFail: @Sendable (StoreSyncError) async -> Void

    /// Creates an operation; `didFail` is called with every failure, also before a retry.
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
        ApplicationKey(hooks.backend, hierarchy.application)
    }

    private var unlocking: ApplicationUnlocking {
        ApplicationUnlocking(hierarchy, hooks.backend, state) { [application = hierarchy.application] _ in
            throw StoreSyncError.passwordRequired(application)
        }
    }

    /// Examines the application.
    func main(_ context: OperationContext) async throws -> PasscodeExamination {
        do {
            return try await translatingErrors { try await examine(context) }
        } catch let error as StoreSyncError {
            await didFail(error)
            throw error
        }
    }

    private func examine(_ context: OperationContext) async throws -> PasscodeExamination {
        async let encryption = unlocking.fetch(context)
        async let parts = hooks.missingParts(hierarchy)
        async let aside = AsideApplication.list(hierarchy, hooks, replacement)
        async let clients = hooks.listClients(hierarchy)
        async let documents = hooks.backend.documentRegistrationHooks.listDocuments(hierarchy)
        let (remembered, missing) = try await (encryption, parts)
        let (files, pin) = remembered
        let replaced = try await aside.first { !$0.name.isRemoving && !$0.isLate }
        let (known, made) = try await (clients, documents)
        let isHalf = known.isEmpty && made.isEmpty && files.passwordTest == nil
        if files.registration == nil, let replaced {
            return PasscodeExamination(finding: .existing, registration: replaced.registration)
        }
        guard let missing else { return try await examineAbsent(context) }
        var examination = PasscodeExamination(finding: .existing, registration: files.registration)
        do {
            guard let registration = files.registration else {
                try unlocking.checkPin(pin, nil, files)
                let hasParts = !hierarchy.isEmpty(missing)
                if pin == nil, isHalf, !files.hasSalt, try await !isArriving(nil, hasParts: hasParts, context) {
                    examination.finding = .nothing
                } else {
                    examination.trouble = incomplete
                }
                return examination
            }
            let stored = try StoredRegistration(registration, at: hierarchy.registration)
            if pin == nil, isHalf, stored.info.isEncrypted {
                if try await isArriving(stored.info.epoch, hasParts: true, context) {
                    examination.trouble = arriving
                } else {
                    examination.finding = .nothing
                }
                return examination
            }
            try await examine(stored, remembered, &examination, context)
        } catch let error as StoreSyncError {
            examination.trouble = error
        }
        return examination
    }

    /// Whether the rest of a partial application is still arriving.
    ///
    /// Where the storage moves directories exclusively, devices create an application as a whole, unless its directory existed before:
    /// then they begin with the registration.
    private func isArriving(_ epoch: String?, hasParts: Bool, _ context: OperationContext) async throws -> Bool {
        // To find out what an unknown server can do, something would have to be written there.
        guard hasParts, try await hooks.backend.knownCapabilities()?.contains(.exclusiveDirectoryMove) == true else {
            return false
        }
        let begun = try await context.blocking { [state, key] in try state.begunEpoch(for: key) }
        return epoch == nil || begun != epoch
    }

    /// Examines an application without a directory: it was never created, or isn't visible from here.
    private func examineAbsent(_ context: OperationContext) async throws -> PasscodeExamination {
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
                created. If the application is lost for good, create it again.
                """
            )
        )
    }

    private func examine(
        _ registration: StoredRegistration,
        _ remembered: ApplicationUnlocking.Remembered,
        _ examination: inout PasscodeExamination,
        _ context: OperationContext
    ) async throws {
        let info = registration.info
        let files = remembered.files
        let keyFile = try files.passwordTest.map { try KeyFile($0, at: hierarchy.passwordTest) }
        let (begun, known) = try await context.blocking { [state, key] in
            (try state.begunReplacement(for: key), try state.pin(for: key))
        }
        // Another operation of this device may have replaced the application meanwhile.
        var pin = remembered.pin?.epoch == info.epoch ? remembered.pin : known
        let isOurs = begun?.epoch == info.epoch && keyFile?.epoch.uuidString == begun?.epoch
        // Adopting takes a lock, which another operation may hold. An adopted application isn't adopted again.
        if let begun, isOurs, pin?.epoch != begun.epoch { pin = try await adopt(begun, info, context) }
        let client = try await context.blocking { [state, key] in try state.peekClientIdentifier(for: key) }
        try unlocking.checkPin(pin, info, files)
        if let pin, pin.epoch != info.epoch {
            examination.isDeregistered = true
            throw try await unlocking.newEpoch(registration, after: pin, context)
        }
        if let keyFile, keyFile.epoch.uuidString != info.epoch {
            throw StoreSyncError(
                .applicationIncomplete,
                """
                The keys of \(hierarchy.application) on the remote don't belong to its registration: they are still \
                arriving, or its replacement was interrupted. Wait if they may arrive; otherwise create it again.
                """
            )
        }
        guard let pin, let own = try client.map({ try RemoteIdentifier($0) }) else { return }
        async let deviceInfo = hooks.fetchDeviceInfo(of: own, hierarchy)
        let notes = try await ClientNote.read(on: own, in: hierarchy.deletedClients, hooks)
        let isKnown = try await deviceInfo != nil
        let keptKey = try await unlocking.keptKey(of: info.epoch, context)
        if notes.contains(where: { isAuthentic($0, info, keptKey) }) {
            examination.isDeregistered = true
            throw await unlocking.removedClient()
        }
        guard let keyFile, keptKey != nil, !isOurs, isKnown else { return }
        // This device has the keys, so unlocking doesn't ask for the passcode.
        let sealed = ApplicationUnlocking.Sealed(registration: registration, passwordTest: keyFile.bytes, pin: pin)
        _ = try await unlocking.unlock(sealed, context)
        examination.finding = .current
    }

    /// Whether a note on a client's removal is authentic, as far as this device has the keys to check it.
    ///
    /// Without them the registration checks the note, when the passcode has opened the application.
    private func isAuthentic(
        _ note: ClientNote,
        _ info: RegistrationInfo,
        _ key: EpochKey?
    ) -> Bool {
        if info.isEncrypted, key == nil { return false }
        let seal = ApplicationSeal(application: hierarchy.application, key: info.isEncrypted ? key : nil)
        return ClientNotes(subject: .application(hierarchy), seal: seal, hooks: hooks).warning(about: note) == nil
    }

    /// Completes a replacement that was interrupted after this device had published the new application.
    ///
    /// Returns what this device remembers of the new application.
    private func adopt(
        _ begun: BegunReplacement,
        _ info: RegistrationInfo,
        _ context: OperationContext
    ) async throws -> ApplicationPin? {
        // A replacement that is in progress on this device holds the lock, and completes by itself.
        let lock = try await state.lock(.application(key), .exclusive, for: context)
        defer { lock.release() }
        let former = try await context.blocking { [state, key] in try state.pin(for: key) }
        guard former?.epoch != begun.epoch else { return former }
        // As in a registration, the former application's items and deletions go first.
        if former != nil { try await state.blitzKeychain(of: key, on: context.blockingExecutor) }
        let pin = ApplicationPin(encryption: info.encryption, epoch: info.epoch)
        try await context.blocking { [state, key] in try state.commitReplacement(begun, pin, for: key) }
        return pin
    }

    private var incomplete: StoreSyncError {
        StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote has no registration: it is still arriving, or was damaged. \
            \(StoreSyncError.remedyForMissingRegistration(hierarchy))
            """
        )
    }

    private var arriving: StoreSyncError {
        StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote has nothing but the registration: the rest is still arriving. Try again when \
            everything has arrived. If the device that created it was interrupted, set that device up again; if it's lost, start over with a new \
            passcode.
            """
        )
    }
}
