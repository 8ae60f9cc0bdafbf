import Foundation
public import Operations
public import RemoteStorage
import SyncCryptography

/// Registers an application, and this device as its client, with the remote.
///
/// If the application isn't there it's made: put together aside and moved to its place where the storage moves
/// directories exclusively, else begun with a registration file that only one device can create. So whatever dies
/// when, and however many devices come first at once, there is one application, and a device that comes later completes
/// what is half made. If it's there, this device's memory of it is checked first: an application that was encrypted and
/// isn't any more, or isn't the same one any more, or has vanished, is refused, and nothing is written.
///
/// Whether to encrypt is asked while the operation is paused, so that other operations run meanwhile.
public actor ApplicationRegistrationOperation: Operation {
    /// Answers what can't be known beforehand.
    ///
    /// It should throw when its task is cancelled.
    public typealias Delegate = @Sendable (EncryptionQuestion) async throws -> EncryptionDecision

    let request: ApplicationRegistrationRequest
    let hierarchy: ApplicationHierarchy
    let hooks: any ApplicationRegistrationHooks
    let replacement: any ApplicationReplacementHooks
    let state: StateDirectory
    private let delegate: Delegate
    /// What this run put together aside and hasn't moved yet.
    var staged: (name: String, hierarchy: ApplicationHierarchy, context: OperationContext)?
    /// What this run moved aside and nothing has taken the place of yet.
    var movedAside: AsideName?

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: What to register.
    ///   - backend: Where.
    ///   - state: This device's memory.
    ///   - delegate: Is asked whether to encrypt a new application, for the password of one that is encrypted, and whether to
    ///     join one that isn't.
    public init(
        _ request: ApplicationRegistrationRequest,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: @escaping Delegate
    ) {
        self.request = request
        hierarchy = ApplicationHierarchy(request.application)
        hooks = backend.applicationRegistrationHooks
        replacement = backend.applicationReplacementHooks
        self.state = state
        self.delegate = delegate
    }

    var key: ApplicationKey {
        ApplicationKey(remote: hooks.backend.identity, application: request.application.rawValue)
    }

    var unlocking: ApplicationUnlocking {
        ApplicationUnlocking(hierarchy, hooks.backend, state, triesPassword: request.isSetup, delegate: delegate)
    }

    /// Registers.
    public func main(_ context: OperationContext) async throws -> ApplicationRegistration {
        try await translatingErrors {
            let lock = try await context.blocking { [state, key, request] in
                try state.lock(.application(key), request.startsAnew ? .exclusive : .shared)
            }
            defer { lock.release() }
            guard request.isSetup else { return try await register(context) }
            try await settleReplacements()
            if let former = request.replaces { return try await replace(former, context) }
            let registration = try await register(context)
            try await finishReplacement(registration, context)
            return registration
        }
    }

    /// Takes away what was put together aside, as far as the remote lets it; `verify --repair` does the rest.
    public func operationDidFail(_ error: any Error) async { await undo() }

    /// Takes away what was put together aside, as far as the remote lets it; `verify --repair` does the rest.
    public func operationWasCancelled() async { await undo() }

    private func undo() async {
        if let name = movedAside.take() { try? await putBack(name) }
        await removeStaged()
    }

    // MARK: What is there

    /// What the remote holds under the application's name.
    enum Found {
        case nothing
        case unfinished
        case legacy
        case registered(RegistrationInfo, bytes: [UInt8])
    }

    /// What was found, with what a client needs to know of it.
    struct Situation {
        var found: Found
        var files: EncryptionFiles
        var missingParts: Set<RemotePath>
        /// Whether a client may have published items of its keychain.
        var hasKeychains: Bool
        var deviceInfo: [UInt8]?
        /// The note that this client was removed, which counts if it's authentic.
        var removalNote: [UInt8]?
        var warnings: [String] = []
    }

    private func register(_ context: OperationContext) async throws -> ApplicationRegistration {
        let (pin, client) = try await context.blocking { [state, key, request] in
            let client = request.startsAnew ? nil : try state.peekClientIdentifier(for: key)
            return (try state.pin(for: key), client)
        }
        let known = try client.map { try RemoteIdentifier($0) }
        let situation = try await look(for: known, pin)
        context.reportProgress(0.3)
        switch situation.found {
        case .nothing, .unfinished:
            try refuseToCreate(pin, situation.found)
            return try await create(situation, context)
        case .legacy:
            // It was ours: what looks like TICoreDataSync's tree is what is left of it, or what has arrived.
            if let pin, pin.epoch != nil, !pin.isEncrypted, !request.startsAnew { throw registrationGone }
            return try await join(situation, nil, pin: pin, context)
        case .registered(let info, let bytes):
            return try await join(situation, (info, bytes), pin: pin, context)
        }
    }

    /// Sends everything out that needs no other answer: for a known client, these are all requests there are.
    func look(for client: RemoteIdentifier?, _ pin: ApplicationPin?) async throws -> Situation {
        async let encryption = EncryptionFiles.fetch(hooks, hierarchy)
        async let parts = hooks.missingParts(hierarchy)
        async let deviceInfo = client.mapAsync { try await self.hooks.fetchDeviceInfo(of: $0, self.hierarchy) }
        async let note = client.mapAsync { try await self.hooks.fetchDeletedClientNote($0, self.hierarchy) }
        var (files, missing) = try await (encryption, parts)
        let (info, removalNote) = try await (deviceInfo, note)
        let found = try await classify(&files, missing, pin)
        return Situation(
            found: found,
            files: files,
            missingParts: (missing ?? []).subtracting([hierarchy.keychains]),
            hasKeychains: missing?.contains(hierarchy.keychains) == false,
            deviceInfo: info ?? nil,
            removalNote: removalNote ?? nil
        )
    }

    private func classify(
        _ files: inout EncryptionFiles,
        _ missing: Set<RemotePath>?,
        _ pin: ApplicationPin?
    ) async throws -> Found {
        // Nothing at all is no answer to what it was: the share may not be mounted.
        guard let missing else { return .nothing }
        if let found = try registered(files, pin) { return found }
        let clients = try await hooks.listClients(hierarchy)
        let infos = try await together(clients) { [hooks, hierarchy] in
            try await hooks.fetchDeviceInfo(of: $0, hierarchy)
        }
        // These answers are of different moments, between which another device may have made the application. It
        // begins with the registration, so that there still is none says that what was seen isn't its work.
        files = try await EncryptionFiles.fetch(hooks, hierarchy)
        if let found = try registered(files, pin) { return found }
        try await refuseKeysWithoutRegistration(files)
        // Whoever makes an application in place begins with the registration; so parts without one are still arriving.
        let isEmpty = missing.isSuperset(of: hierarchy.directories.dropFirst() + [hierarchy.readMe])
        if clients.isEmpty, isEmpty { return .unfinished }
        if isLegacy(clients, infos) { return .legacy }
        throw StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote has clients but no registration: it is still arriving, or was damaged. \
            Try again when everything has arrived.
            """
        )
    }

    private func registered(_ files: EncryptionFiles, _ pin: ApplicationPin?) throws -> Found? {
        guard let bytes = files.registration else {
            try unlocking.checkPin(pin, nil, files)
            return nil
        }
        let info = try RegistrationInfo(bytes, at: hierarchy.registration)
        try unlocking.checkPin(pin, info, files)
        return .registered(info, bytes: bytes)
    }

    /// Salt and key file without a registration: it's gone, or on its way; or they are another program's.
    private func refuseKeysWithoutRegistration(_ files: EncryptionFiles) async throws {
        guard files.hasSalt || files.passwordTest != nil else { return }
        // What isn't ours says so.
        if let salt = try await hooks.fetchSalt(hierarchy) { _ = try SaltFile(salt) }
        if let passwordTest = files.passwordTest { _ = try KeyFile(passwordTest) }
        throw StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote is encrypted and has no registration: it is still arriving, or was damaged. \
            Try again when everything has arrived.
            """
        )
    }

    /// Whether clients without a registration are those of an unencrypted tree of TICoreDataSync.
    ///
    /// One that can be read says so. One that can't may be sealed, and then others beside it prove nothing.
    private func isLegacy(_ clients: [RemoteIdentifier], _ infos: [[UInt8]?]) -> Bool {
        let saved = zip(clients, infos).compactMap { client, bytes in bytes.map { (client, $0) } }
        return !saved.isEmpty
            && saved.allSatisfy { client, bytes in
                (try? DeviceInfo(bytes, at: hierarchy.deviceInfo(client))) != nil
            }
    }

    // MARK: Parts

    func decide(
        _ question: EncryptionQuestion,
        _ context: OperationContext
    ) async throws -> EncryptionDecision {
        try await context.pause(awaiting: "\(question)") { try await delegate(question) }
    }

    func clientIdentifier(_ context: OperationContext) async throws -> RemoteIdentifier {
        let client = try await context.blocking { [state, key, request] in
            try request.startsAnew ? state.replaceClientIdentifier(for: key) : state.clientIdentifier(for: key)
        }
        return try RemoteIdentifier(client)
    }

    /// Keeps what this device must know next time: first what the application is, since keys can be asked for again.
    func remember(_ pin: ApplicationPin, _ seal: ApplicationSeal, _ context: OperationContext) async throws {
        try await context.blocking { [state, key] in try state.setPin(pin, for: key) }
        if let sealing = seal.key, let epoch = pin.epoch {
            try await state.keep(sealing.master, for: key, epoch: epoch, on: context.blockingExecutor)
        }
        context.reportProgress(0.9)
    }

    func deviceInfo(of client: RemoteIdentifier, _ seal: ApplicationSeal) -> [UInt8] {
        let info = DeviceInfo(
            client: client.rawValue,
            description: request.clientDescription,
            userInfo: request.userInfo
        )
        return seal.seal(info.xml, as: .deviceInfo(client))
    }

    func registration(
        of client: RemoteIdentifier,
        _ seal: ApplicationSeal,
        didCreate: Bool,
        hasKeychains: Bool = false,
        warnings: [String] = []
    ) -> ApplicationRegistration {
        ApplicationRegistration(
            application: request.application,
            client: client,
            clientDescription: request.clientDescription,
            didCreateApplication: didCreate,
            hasKeychains: hasKeychains,
            seal: seal,
            warnings: warnings
        )
    }

    var registrationGone: StoreSyncError {
        StoreSyncError(
            .applicationIncomplete,
            """
            The registration of \(request.application) is gone from the remote although this device knows the \
            application. Try again when everything has arrived.
            """
        )
    }

    var mismatch: StoreSyncError {
        StoreSyncError(
            .encryptionMismatch,
            "\(request.application) is not encrypted, but encryption was asked for. Nothing was written. Join it without encryption, or use another application."
        )
    }
}
