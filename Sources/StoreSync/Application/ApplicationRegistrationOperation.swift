public import Operations
public import RemoteStorage
import SyncCryptography

/// Registers an application, and this device as its client, with the remote.
///
/// If the application doesn't exist, the operation creates it. Where the storage moves directories exclusively, it
/// builds the application in a staging directory and moves that into place. Elsewhere it starts with a registration
/// file that only one device can create. So there is only one application, even if several devices register first at the
/// same time, or one of them fails meanwhile. A later device completes a partial application.
///
/// If the application exists, the operation first compares it with this device's memory. It refuses an application that
/// is no longer encrypted, that has another epoch, or that is missing, and writes nothing.
///
/// Five words of the code:
/// - *epoch*: the UUID of one creation of the application. An application that is created again has another epoch, and
///   other keys if it's encrypted.
/// - *seal*: encrypts and authenticates each file for its role, so that no file passes for another. In an unencrypted
///   application it leaves files as they are.
/// - *pin*: what this device remembers of the application from its last registration: epoch, encryption, version of the
///   password. The storage can't change it.
/// - *staging*: building the application under another name beside its path, from which it's moved there.
/// - *aside*: under such a name. A former application stays aside until the new one is in its place.
///
/// The operation is paused while it asks whether to encrypt, so that other operations run meanwhile.
public actor ApplicationRegistrationOperation: Operation {
    /// Answers the questions that a registration can't settle by itself.
    ///
    /// It should throw when its task is cancelled.
    public typealias Delegate = @Sendable (EncryptionQuestion) async throws -> EncryptionDecision

    private let given: ApplicationRegistrationRequest
    /// The request of this attempt, which decides whether ``ApplicationRegistrationRequest/registersAgain`` applies.
    var request: ApplicationRegistrationRequest
    let hierarchy: ApplicationHierarchy
    let hooks: any ApplicationRegistrationHooks
    let replacement: any ApplicationReplacementHooks
    let state: StateDirectory
    private let delegate: Delegate
    /// The application that this run has staged and not yet moved into place.
    var staged: (name: String, hierarchy: ApplicationHierarchy, context: OperationContext)?
    /// The former application that this run has moved aside and not yet replaced.
    var movedAside: AsideName?

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: What to register.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    ///   - delegate: Decides whether to encrypt a new application and whether to join an unencrypted one, and gives the
    ///     password of an encrypted one.
    public init(
        _ request: ApplicationRegistrationRequest,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: @escaping Delegate
    ) {
        (given, self.request) = (request, request)
        hierarchy = ApplicationHierarchy(request.application)
        hooks = backend.applicationRegistrationHooks
        replacement = backend.applicationReplacementHooks
        self.state = state
        self.delegate = delegate
    }

    var key: ApplicationKey {
        ApplicationKey(hooks.backend, request.application)
    }

    var unlocking: ApplicationUnlocking {
        var unlocking = ApplicationUnlocking(hierarchy, hooks.backend, state, delegate: delegate)
        // A device that is set up again proves the password like every new client, although it may have the keys.
        unlocking.triesPassword = request.isSetup || request.registersAgain
        return unlocking
    }

    /// Registers the application and this client.
    ///
    /// 1. `inspect` reads what is on the remote, and compares that with this device's pin.
    /// 2. `resolveRegistersAgain` decides whether ``ApplicationRegistrationRequest/registersAgain`` applies.
    /// 3. If there is no application, `create` asks whether to encrypt, and creates one. Otherwise `join` asks for the
    ///    password unless this device has the keys, and completes missing parts.
    /// 4. Both save this client's description on the remote, and by `remember` the pin and the keys on this device.
    ///
    /// A request of a ``PasscodeSetup`` first completes or undoes interrupted replacements of the application, and may
    /// replace it.
    ///
    /// If that fails or is cancelled, it undoes what it staged or moved aside, as far as the remote allows;
    /// `verify --repair` does the rest. If it's cancelled when it has begun to publish a new application, it finishes.
    ///
    /// - Throws: ``StoreSyncError``, among others `applicationMissing`, `applicationIncomplete`,
    ///   `applicationChanged`, `encryptionMismatch`, `encryptionDowngraded`, `passwordRequired`, `deregistered`,
    ///   `unsupportedStorage` and `busy`; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> ApplicationRegistration {
        request = given
        do {
            return try await attempt(context)
        } catch {
            // Not in an ending phase: a retry may run in another actor, which knows nothing of this attempt.
            try? await context.shielded { [self] in await undo() }
            throw error
        }
    }

    private func attempt(_ context: OperationContext) async throws -> ApplicationRegistration {
        try await translatingErrors {
            do {
                return try await attemptLocked(context)
            } catch is RemovedClient {
                // The passcode of a setup was correct. Now this device registers as another client.
                request.registersAgain = true
                return try await attemptLocked(context)
            }
        }
    }

    /// A setup has found out that this client was removed from the application.
    struct RemovedClient: Error {}

    private func attemptLocked(_ context: OperationContext) async throws -> ApplicationRegistration {
        let lock = try await state.lock(.application(key), request.registersAgain ? .exclusive : .shared, for: context)
        defer { lock.release() }
        guard request.isSetup else { return try await register(context) }
        try await settleReplacements()
        let registration =
            if let former = request.replaces {
                try await replace(former, context)
            } else {
                try await register(context)
            }
        do {
            try await finishReplacement(registration, context)
        } catch  where Task.isCancelled {
            // This device is registered. The next setup removes the rest.
        }
        return registration
    }

    private func undo() async {
        if let name = movedAside.take() { try? await putBack(name) }
        await removeStaged()
    }

    /// What a client has of an application when it's registered.
    struct Membership: Sendable {
        let client: RemoteIdentifier
        let seal: ApplicationSeal
        /// What this device remembers of the application.
        let pin: ApplicationPin
    }

    private func register(_ context: OperationContext) async throws -> ApplicationRegistration {
        try request.userInfo.refuseUnreadable(with: request.clientDescription, of: "this device")
        let (pin, client) = try await context.blocking { [state, key] in
            (try state.pin(for: key), try state.peekClientIdentifier(for: key))
        }
        let known = try client.map { try RemoteIdentifier($0) }
        var remote = try await inspect(for: known, pin)
        try await resolveRegistersAgain(&remote, pin, context)
        context.reportProgress(0.3)
        switch remote.found {
        case .nothing, .empty:
            try refuseToCreate(pin, remote.found)
            return try await create(remote, context)
        case .legacy:
            // This device knows the registration. What looks like TICoreDataSync's tree is the rest of this
            // application, or the part that has arrived.
            if let pin, pin.epoch != nil, !pin.isEncrypted, !request.registersAgain { throw registrationGone }
            return try await join(remote, nil, pin: pin, context)
        case .registered(let registration):
            return try await join(remote, registration, pin: pin, context)
        }
    }

    // MARK: Parts

    func clientIdentifier(_ context: OperationContext) async throws -> RemoteIdentifier {
        let client = try await context.blocking { [state, key, request] in
            try request.registersAgain ? state.replaceClientIdentifier(for: key) : state.clientIdentifier(for: key)
        }
        return try RemoteIdentifier(client)
    }

    /// Saves the pin first and then the keys, since the user can be asked for the password again.
    ///
    /// A replacement also forgets what this device knew of the former application's documents.
    func remember(
        _ membership: Membership,
        replacing begun: BegunReplacement? = nil,
        _ context: OperationContext
    ) async throws {
        let pin = membership.pin
        let former = try await context.blocking { [state, key] in try state.pin(for: key) }
        // The items and deletions of another application, and of a client that was removed, aren't for this one. They go first,
        // so that an interrupted registration leaves none of them with the new pin.
        if let former, former.epoch != pin.epoch || request.registersAgain {
            try await state.blitzKeychain(of: key, on: context.blockingExecutor)
        }
        try await context.blocking { [state, key] in
            if let begun {
                try state.commitReplacement(begun, pin, for: key)
            } else {
                try state.setPin(pin, for: key)
            }
        }
        if let sealing = membership.seal.key, let epoch = pin.epoch {
            try await state.keep(sealing.master, for: key, epoch: epoch, on: context.blockingExecutor)
        }
        context.reportProgress(0.9)
    }

    func deviceInfo(_ membership: Membership) -> [UInt8] {
        let info = DeviceInfo(
            client: membership.client.rawValue,
            description: request.clientDescription,
            userInfo: request.userInfo,
            epoch: membership.pin.epoch
        )
        return membership.seal.seal(info.xml, as: .deviceInfo(membership.client))
    }

    func registration(
        of membership: Membership,
        didCreate: Bool,
        hasKeychains: Bool = false,
        warnings: [String] = []
    ) -> ApplicationRegistration {
        ApplicationRegistration(
            application: request.application,
            client: membership.client,
            clientDescription: request.clientDescription,
            didCreateApplication: didCreate,
            hasKeychains: hasKeychains,
            seal: membership.seal,
            warnings: warnings
        )
    }

    var registrationGone: StoreSyncError {
        StoreSyncError(
            .applicationIncomplete,
            """
            The registration of \(request.application) is missing on the remote, although this device knows the \
            application. \(StoreSyncError.remedyForMissingRegistration(hierarchy))
            """
        )
    }

    var mismatch: StoreSyncError {
        StoreSyncError(
            .encryptionMismatch,
            """
            \(request.application) is not encrypted, but encryption was asked for, or a password was given. Nothing was \
            written. Join it with neither (leave out --encrypt, --password-file and STORESYNC_PASSWORD), or use another \
            application.
            """
        )
    }
}
