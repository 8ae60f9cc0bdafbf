import Foundation
public import Operations
public import RemoteStorage

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

    private let request: ApplicationRegistrationRequest
    private let hierarchy: ApplicationHierarchy
    private let hooks: any ApplicationRegistrationHooks
    private let state: StateDirectory
    private let delegate: Delegate
    /// What this run put together aside and hasn't moved yet.
    private var staged: (name: String, hierarchy: ApplicationHierarchy, context: OperationContext)?

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - request: What to register.
    ///   - backend: Where.
    ///   - state: This device's memory.
    ///   - delegate: Is asked whether to encrypt a new application, and whether to join an unencrypted one.
    public init(
        _ request: ApplicationRegistrationRequest,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: @escaping Delegate
    ) {
        self.request = request
        hierarchy = ApplicationHierarchy(request.application)
        hooks = backend.applicationRegistrationHooks
        self.state = state
        self.delegate = delegate
    }

    private var key: ApplicationKey {
        ApplicationKey(remote: hooks.backend.identity, application: request.application.rawValue)
    }

    /// Registers.
    public func main(_ context: OperationContext) async throws -> ApplicationRegistration {
        try await translatingErrors {
            let lock = try await context.blocking { [state, key, request] in
                try state.lock(.application(key), request.startsAnew ? .exclusive : .shared)
            }
            defer { lock.release() }
            return try await register(context)
        }
    }

    /// Takes away what was put together aside, as far as the remote lets it; `verify --repair` does the rest.
    public func operationDidFail(_ error: any Error) async { await removeStaged() }

    /// Takes away what was put together aside, as far as the remote lets it; `verify --repair` does the rest.
    public func operationWasCancelled() async { await removeStaged() }

    // MARK: What is there

    /// What the remote holds under the application's name.
    private enum Found {
        case nothing
        case unfinished
        case legacy
        case registered(RegistrationInfo)
    }

    /// What was found, with what a client needs to know of it.
    private struct Situation {
        var found: Found
        var missingParts: Set<RemotePath>
        var deviceInfo: [UInt8]?
        var wasDeleted: Bool
    }

    private func register(_ context: OperationContext) async throws -> ApplicationRegistration {
        let (pin, client) = try await context.blocking { [state, key, request] in
            let client = request.startsAnew ? nil : try state.peekClientIdentifier(for: key)
            return (try state.pin(for: key), client)
        }
        let known = try client.map { try RemoteIdentifier($0) }
        let situation = try await look(for: known)
        context.reportProgress(0.3)
        switch situation.found {
        case .nothing, .unfinished:
            try refuseToCreate(pin, situation.found)
            return try await create(situation, context)
        case .legacy:
            // It was ours: what looks like TICoreDataSync's tree is what is left of it, or what has arrived.
            if let pin, pin.epoch != nil, !pin.isEncrypted, !request.startsAnew { throw registrationGone }
            return try await join(situation, RegistrationInfo?.none, pin: pin, context)
        case .registered(let info):
            return try await join(situation, info, pin: pin, context)
        }
    }

    /// Sends everything out that needs no other answer: for a known client, these are all requests there are.
    private func look(for client: RemoteIdentifier?) async throws -> Situation {
        async let registration = hooks.fetchRegistration(hierarchy)
        async let parts = hooks.missingParts(hierarchy)
        async let salt = hooks.saltFileExists(hierarchy)
        async let deviceInfo = client.mapAsync { try await self.hooks.fetchDeviceInfo(of: $0, self.hierarchy) }
        async let deleted = client.mapAsync { try await self.hooks.clientWasDeleted($0, self.hierarchy) }
        let (bytes, missing, hasSalt) = try await (registration, parts, salt)
        let (info, wasDeleted) = try await (deviceInfo, deleted)
        let found = try await classify(bytes, exists: missing != nil, hasSalt: hasSalt)
        return Situation(
            found: found,
            missingParts: missing ?? [],
            deviceInfo: info ?? nil,
            wasDeleted: wasDeleted ?? false
        )
    }

    private func classify(_ registration: [UInt8]?, exists: Bool, hasSalt: Bool) async throws -> Found {
        if let registration {
            return .registered(try RegistrationInfo(registration, at: hierarchy.registration))
        }
        guard exists else { return .nothing }
        let clients = try await hooks.listClients(hierarchy)
        let infos = try await together(clients) { [hooks, hierarchy] in
            try await hooks.fetchDeviceInfo(of: $0, hierarchy)
        }
        // These answers are of different moments, between which another device may have made the application. It
        // begins with the registration, so that there still is none says that what was seen isn't its work.
        if let registration = try await hooks.fetchRegistration(hierarchy) {
            return .registered(try RegistrationInfo(registration, at: hierarchy.registration))
        }
        guard !hasSalt else {
            throw StoreSyncError(
                .unsupportedFormat,
                "\(hierarchy.root) on the remote is encrypted in a way that this program doesn't know. Nothing was changed."
            )
        }
        guard !clients.isEmpty else { return .unfinished }
        if isLegacy(clients, infos) { return .legacy }
        throw StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote has clients but no registration: it is still arriving, or was damaged. \
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

    // MARK: Creating

    private func refuseToCreate(_ pin: ApplicationPin?, _ found: Found) throws {
        if let pin {
            if pin.isEncrypted { throw downgraded }
            // Whoever sets a device up anew says that the former application is gone.
            if request.startsAnew, request.mayCreateApplication { return }
            if case .unfinished = found { throw registrationGone }
            throw StoreSyncError(
                .applicationMissing,
                """
                \(request.application) isn't at \(hooks.backend.identity) any more. Is the share mounted? Nothing was \
                created. If the application is gone for good, set this device up anew (register --again).
                """
            )
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

    private func create(_ situation: Situation, _ context: OperationContext) async throws -> ApplicationRegistration {
        try await refuseNameOfOther()
        guard try await decide(.newApplication, context) == .unencrypted else {
            throw StoreSyncError(
                .encryptionUnavailable,
                "This version can't encrypt yet, and nothing was written. Register without encryption, or wait for the next version."
            )
        }
        let client = try await clientIdentifier(context)
        let info = RegistrationInfo.makeUnencrypted()
        let capabilities = try await hooks.backend.capabilities()
        let isOurs: Bool
        if case .nothing = situation.found, capabilities.contains(.exclusiveDirectoryMove) {
            isOurs = try await createAside(info, client, context)
        } else if capabilities.contains(.exclusiveCreate) {
            isOurs = try await createInPlace(info, client)
        } else {
            throw StoreSyncError(
                .unsupportedStorage,
                """
                \(hooks.backend.identity) can neither create a file nor move a directory exclusively: two devices that \
                register first could overwrite each other. Nothing was created.
                """
            )
        }
        guard isOurs else {
            // Somebody was first. Their application is joined under the decision that was just made.
            let situation = try await look(for: client)
            guard case .registered(let info) = situation.found else {
                throw StoreSyncError(.busy, "Another device is just registering \(request.application). Try again.")
            }
            try check(info, against: nil)
            return try await complete(situation, info, client, context)
        }
        try await remember(info, context)
        return registration(of: client, info, didCreate: true)
    }

    private func refuseNameOfOther() async throws {
        let others = try await hooks.listApplications()
        if let other = others.first(where: { $0.differsOnlyInCase(from: request.application) }) {
            throw StoreSyncError(
                .invalidIdentifier,
                "\(request.application) differs only in case from \(other), which some storage takes for the same. Choose another name."
            )
        }
    }

    /// Puts everything together under another name and moves it to its place, where one device at most succeeds.
    private func createAside(
        _ info: RegistrationInfo,
        _ client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> Bool {
        let name = ApplicationHierarchy.stagingName(UUID().uuidString)
        let aside = try hierarchy.staged(as: name)
        // Noted first: whatever happens from here on, this device knows what to clean up.
        try await context.blocking { [state, key] in try state.recordStaging(name: name, for: key) }
        staged = (name, aside, context)
        do {
            try await putTogether(aside, info, client, context)
        } catch let error as RemoteError where error.path?.isEqualToOrInside(aside.root) == true {
            throw namingRemote(error)
        }
        context.reportProgress(0.8)
        guard try await hooks.publishApplication(stagedAt: aside.root, hierarchy) else {
            await removeStaged()
            // The refusal may be the answer to our own request, sent twice.
            return try await hooks.fetchRegistration(hierarchy) == info.xml
        }
        staged = nil
        try await context.blocking { [state, key] in try state.forgetStaging(name: name, for: key) }
        return true
    }

    private func putTogether(
        _ aside: ApplicationHierarchy,
        _ info: RegistrationInfo,
        _ client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws {
        try await hooks.createApplicationDirectoryStructure(aside)
        context.reportProgress(0.5)
        let device = deviceInfo(of: client)
        async let readMe: Void = hooks.saveReadMe(request.readMe, aside)
        async let registration = hooks.createRegistration(info.xml, aside)
        async let saved: Void = hooks.saveDeviceInfo(device, of: client, aside)
        _ = try await (readMe, registration, saved)
    }

    /// The same error about the remote itself, since nobody knows the name that something is put together under.
    private func namingRemote(_ error: RemoteError) -> RemoteError {
        guard let path = error.path else { return error }
        let message = error.message
            .replacingOccurrences(of: "“\(path)”", with: "“\(hooks.backend.identity)” on the remote")
        return RemoteError(error.code, message, cause: error)
    }

    /// Begins with the registration, which one device at most can create, and completes the rest.
    private func createInPlace(_ info: RegistrationInfo, _ client: RemoteIdentifier) async throws -> Bool {
        guard try await hooks.createRegistration(info.xml, hierarchy) else { return false }
        try await completeStructure()
        try await hooks.saveDeviceInfo(deviceInfo(of: client), of: client, hierarchy)
        return true
    }

    private func completeStructure() async throws {
        async let structure: Void = hooks.createApplicationDirectoryStructure(hierarchy)
        async let readMe: Void = hooks.saveReadMe(request.readMe, hierarchy)
        _ = try await (structure, readMe)
    }

    private func removeStaged() async {
        guard let (name, aside, context) = staged else { return }
        staged = nil
        guard (try? await hooks.removeStagedApplication(at: aside.root)) != nil else { return }
        try? await context.blocking { [state, key] in try state.forgetStaging(name: name, for: key) }
    }

    // MARK: Joining

    private func join(
        _ situation: Situation,
        _ info: RegistrationInfo?,
        pin: ApplicationPin?,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        try check(info, against: pin)
        if situation.wasDeleted { throw deregistered("this client was removed from the application") }
        if pin == nil, try await decide(.joiningUnencrypted, context) == .encrypted { throw mismatch }
        let client = try await clientIdentifier(context)
        return try await complete(situation, info, client, context)
    }

    /// What this device remembers comes first, in this order: that it was encrypted, then its epoch.
    private func check(_ info: RegistrationInfo?, against pin: ApplicationPin?) throws {
        let isEncrypted = info?.isEncrypted ?? false
        if let pin, pin.isEncrypted, !isEncrypted { throw downgraded }
        if let pin, pin.epoch != info?.epoch, !request.startsAnew {
            throw deregistered("the application was made anew")
        }
        if isEncrypted {
            throw StoreSyncError(
                .encryptionUnavailable,
                "\(request.application) is encrypted, which this version can't open. Update it."
            )
        }
        if request.requiresEncryption { throw mismatch }
    }

    /// Completes what is half made, ours or somebody else's, and puts this client in.
    private func complete(
        _ situation: Situation,
        _ info: RegistrationInfo?,
        _ client: RemoteIdentifier,
        _ context: OperationContext
    ) async throws -> ApplicationRegistration {
        // TICoreDataSync's own trees stay as they are.
        if info != nil, !situation.missingParts.isEmpty { try await completeStructure() }
        context.reportProgress(0.6)
        let isKnown = situation.deviceInfo.map { (try? DeviceInfo($0, at: hierarchy.deviceInfo(client))) != nil }
        if isKnown != true {
            try await hooks.createClientDeviceDirectory(client, hierarchy)
            try await hooks.saveDeviceInfo(deviceInfo(of: client), of: client, hierarchy)
        }
        try await remember(info, context)
        return registration(of: client, info, didCreate: false)
    }

    // MARK: Parts

    private func decide(
        _ question: EncryptionQuestion,
        _ context: OperationContext
    ) async throws -> EncryptionDecision {
        try await context.pause(awaiting: "\(question)") { try await delegate(question) }
    }

    private func clientIdentifier(_ context: OperationContext) async throws -> RemoteIdentifier {
        let client = try await context.blocking { [state, key, request] in
            try request.startsAnew ? state.replaceClientIdentifier(for: key) : state.clientIdentifier(for: key)
        }
        return try RemoteIdentifier(client)
    }

    private func remember(_ info: RegistrationInfo?, _ context: OperationContext) async throws {
        let pin = ApplicationPin(encryption: .none, epoch: info?.epoch)
        try await context.blocking { [state, key] in try state.setPin(pin, for: key) }
        context.reportProgress(0.9)
    }

    private func deviceInfo(of client: RemoteIdentifier) -> [UInt8] {
        DeviceInfo(
            client: client.rawValue,
            description: request.clientDescription,
            userInfo: request.userInfo
        ).xml
    }

    private func registration(
        of client: RemoteIdentifier,
        _ info: RegistrationInfo?,
        didCreate: Bool
    ) -> ApplicationRegistration {
        ApplicationRegistration(
            application: request.application,
            client: client,
            clientDescription: request.clientDescription,
            isEncrypted: info?.isEncrypted ?? false,
            didCreateApplication: didCreate
        )
    }

    private var downgraded: StoreSyncError {
        StoreSyncError(
            .encryptionDowngraded,
            """
            \(request.application) was encrypted when this device last saw it, and isn't now. Somebody may have tampered \
            with the remote; nothing was written. Find out what happened before you register without encryption.
            """
        )
    }

    private var registrationGone: StoreSyncError {
        StoreSyncError(
            .applicationIncomplete,
            """
            The registration of \(request.application) is gone from the remote although this device knows the \
            application. Try again when everything has arrived.
            """
        )
    }

    private var mismatch: StoreSyncError {
        StoreSyncError(
            .encryptionMismatch,
            "\(request.application) is not encrypted, but encryption was asked for. Nothing was written. Join it without encryption, or use another application."
        )
    }

    private func deregistered(_ reason: String) -> StoreSyncError {
        StoreSyncError(
            .deregistered,
            "This device isn't registered any more: \(reason). Set it up anew (register --again)."
        )
    }
}
