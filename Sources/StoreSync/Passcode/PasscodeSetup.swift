import Foundation
public import Operations
public import RemoteStorage
public import SyncCryptography
import ThreadSupport

/// Sets up a device with a passcode that protects an application's data on the remote.
///
/// ```swift
/// // The app keeps a reference to it: without one, the states end.
/// let setup = manager.passcodeSetup()
/// async let examined: Void = setup.begin()
/// for await status in await setup.states {
///     switch (status.setupState, status.syncPasscodeState) {
///     case (.syncRequired, .new): await ask("Take a passcode for your data.", .new)
///     case (.syncRequired, .existing): await ask("Give the passcode of your data.", .existing, status.syncError)
///     case (.syncRequired, .none) where status.syncError?.code == .applicationMissing:
///         await ask("Your data is gone. Mount the share, or take a passcode for new data.", .new)
///     case (.ongoing, _): await synchronize()
///     default: await showProgress()
///     }
/// }
/// ```
///
/// ``begin(retry:)`` examines the remote. Then, in the state `syncRequired`, ``Status/syncPasscodeState`` says what a
/// passcode is needed for: `new` if the remote has no data, `existing` if it has, and `none` while that is unknown and
/// the app has to wait. It stays `none` with the error `applicationMissing` if the data that this device was set up for isn't
/// there: then the app may examine the remote again, or try a passcode with the action `new`. ``start(_:)`` tries the passcode:
/// the state is `syncStarted` during the attempt, and `ongoing` after a success. After a failure the state is `syncRequired`
/// again, ``Status/syncError`` says why, and the app may retry.
///
/// If there is data, a passcode with the action `new` **deletes it all** and creates the application again, with
/// another epoch and other keys. This deregisters every other device: its next operation fails with
/// ``StoreSyncError/Code/deregistered``, its setup goes back to `syncRequired` and `existing`, and it needs the new
/// passcode. A device that has the former keys leaves a proof of that (``/SyncCryptography/SuccessorProof``). The proof
/// lets other devices distinguish a replacement by such a device from an attack by the storage:
/// ``StoreSyncError/isSuccessorProven``. A device that is already set up may replace the application too. Data that was
/// only on the remote is lost. A local store is pushed to the new application by the device that created the
/// application. On any other device, the first synchronization of its store fails with ``StoreSyncError/Code/unrelatedStore``:
/// the user has to say what counts, by ``SynchronizationRequest/takenSide``.
///
/// If the device dies during the replacement, the remote has the former application, the new one, or one marked as
/// incomplete. The next setup, on any device, completes or undoes the rest. If two devices replace the application at
/// the same time, one wins, and the other's attempt fails with ``StoreSyncError/Code/applicationChanged``.
public actor PasscodeSetup {
    /// The application.
    public nonisolated let application: RemoteIdentifier
    private let request: ApplicationRegistrationRequest
    private let backend: any RemoteBackend
    private let state: StateDirectory
    private let key: ApplicationKey
    private let supervisor: OperationSupervisor
    /// Identifies this setup among the observers of the device's deregistration.
    private let observer = UUID()
    private let listeners = Locked<[UUID: AsyncStream<Status>.Continuation]>([:])

    private var machine = PasscodeSetupMachine()
    private var running: [OperationID: any OperationReference] = [:]
    private var isChangingPasscode = false
    private var hasEnded = false

    /// The maximum number of unread states: more than a user's attempts produce before the app reads them.
    private static let bufferedStates = 64

    /// Creates a setup.
    ///
    /// - Parameters:
    ///   - request: The application, and this device's description in it. Whether it may be created and must be
    ///     encrypted follows from the passcodes.
    ///   - backend: The storage of the application.
    ///   - state: This device's memory.
    ///   - supervisor: Runs the operations.
    public init(
        _ request: ApplicationRegistrationRequest,
        backend: any RemoteBackend,
        state: StateDirectory,
        supervisor: OperationSupervisor = OperationSupervisor()
    ) {
        application = request.application
        var request = request
        request.isSetup = true
        request.requiresEncryption = true
        self.request = request
        self.backend = backend
        self.state = state
        self.supervisor = supervisor
        key = ApplicationKey(backend, request.application)
        state.deregistrations.add(observer, for: key) { [weak self] error in await self?.deregistered(error) }
    }

    deinit {
        state.deregistrations.remove(observer)
        for listener in listeners.withLock({ $0.values.map { $0 } }) { listener.finish() }
    }

    // MARK: State

    /// The present state of the setup.
    public var status: Status { machine.status }
    /// How far this device is set up.
    public var setupState: SetupState { status.setupState }
    /// What a passcode is needed for.
    public var syncPasscodeState: SyncPasscodeState { status.syncPasscodeState }
    /// Why the last attempt failed, or what is wrong with the application on the remote.
    public var syncError: StoreSyncError? { status.syncError }

    /// The present status, then every change; each call returns a separate sequence.
    ///
    /// A reader that is more than 64 changes behind misses the oldest, never the last. The sequence ends with ``end()``, or
    /// when the last reference to the setup is released; the sequence doesn't hold one.
    public var states: AsyncStream<Status> {
        let (stream, listener) = AsyncStream.makeStream(
            of: Status.self,
            bufferingPolicy: .bufferingNewest(Self.bufferedStates)
        )
        listener.yield(status)
        guard !hasEnded else {
            listener.finish()
            return stream
        }
        let identifier = UUID()
        listeners.withLock { $0[identifier] = listener }
        listener.onTermination = { [listeners] _ in
            listeners.withLock { _ = $0.removeValue(forKey: identifier) }
        }
        return stream
    }

    private func tell() {
        let status = status
        for listener in listeners.withLock({ $0.values.map { $0 } }) { listener.yield(status) }
    }

    // MARK: Actions

    /// Examines the application on the remote, and whether this device is set up for it.
    ///
    /// While the storage can't be reached, the state is `syncRequired` and `none`, and ``syncError`` is the reason. May
    /// be called again at any time except while a passcode is being tried. If an attempt fails during the examination, the
    /// application is examined again, since the result may be from before the attempt. Then ``syncError`` still says why the
    /// attempt failed, unless this device is set up or the examination has found a problem.
    ///
    /// - Parameter retry: Whether and when a failure is retried; `nil` retries until the storage can be reached, at
    ///   least once a minute.
    /// - Throws: ``StoreSyncError`` if the examination fails, ``StoreSyncError/Code/notExpected`` while a passcode is
    ///   being tried; `CancellationError`.
    public func begin(retry: RetryPolicy? = nil) async throws {
        try refuseAfterEnd()
        let untilReached = RetryPolicy(maximumAttempts: .max) {
            ($0 as? StoreSyncError)?.code == .remoteUnavailable
        }
        machine.forgetAttempt()
        var counts: Bool
        repeat {
            let number = try machine.beginExamination()
            tell()
            let examination = try await run(
                PasscodeExaminationOperation(application, backend: backend, state: state) { [weak self] error in
                    await self?.examinationFailed(error)
                },
                OperationOptions(retry: retry ?? untilReached)
            )
            counts = machine.examined(examination, number: number)
            tell()
        } while !counts && setupState == .syncRequired
    }

    /// Tries a passcode, or protects new data with it.
    ///
    /// Ends when the attempt has succeeded or failed; ``states`` reports the same. Cancelling the calling task ends the
    /// attempt. If the attempt has already begun to publish a new application, it succeeds. The next setup then asks for the
    /// new passcode if it has to remove what is left of the former application.
    ///
    /// Pass each message on once. After a success the action `existing` is refused, but `new` is another decision: it deletes
    /// the data that the first attempt created.
    ///
    /// - Parameter message: The passcode, and what it's for.
    /// - Throws: The ``StoreSyncError`` that is then the ``syncError``; ``StoreSyncError/Code/notExpected``, which changes
    ///   nothing, if the present state doesn't allow the action or the remote hasn't been examined yet;
    ///   `CancellationError`.
    public func start(_ message: SyncStartMessage) async throws {
        try refuseAfterEnd()
        try machine.start(message.action)
        tell()
        do {
            try await attempt(message)
            machine.succeeded()
            tell()
        } catch {
            let reason = error is CancellationError ? nil : Self.reason(error)
            // The application has changed: the next decision is about its present state.
            let isOther = [.applicationChanged, .deregistered].contains(reason?.code)
            machine.failed(reason, now: isOther ? try? await examination() : nil)
            tell()
            throw reason ?? error
        }
    }

    /// Changes the passcode of the application that this device is set up for.
    ///
    /// The former passcode isn't asked for, so the app has to verify the user's identity first. No device is
    /// deregistered. The new passcode's hash never costs less than the former one's.
    ///
    /// - Parameter passcode: The new passcode.
    /// - Returns: How many passcodes there have been.
    /// - Throws: ``StoreSyncError/Code/notExpected`` if this device isn't set up, or is already changing the passcode;
    ///   what ``PasswordChangeOperation`` throws; `CancellationError`.
    @discardableResult
    public func changePasscode(to passcode: Password) async throws -> Int {
        try refuseAfterEnd()
        guard setupState == .ongoing, !isChangingPasscode else {
            throw .notExpected(
                isChangingPasscode ? "The passcode is already being changed." : "This device isn't set up yet."
            ) as StoreSyncError
        }
        isChangingPasscode = true
        defer { isChangingPasscode = false }
        return try await run(
            PasswordChangeOperation(
                to: passcode,
                of: application,
                parameters: request.passwordParameters,
                backend: backend,
                state: state
            )
        )
    }

    /// Ends the setup: cancels its operations, ends ``states``, and refuses further actions.
    ///
    /// An attempt in progress ends as cancelled, or with ``StoreSyncError/Code/notExpected`` if it was between two operations.
    /// If it has already begun to publish a new application, it succeeds.
    public func end() {
        hasEnded = true
        state.deregistrations.remove(observer)
        for operation in running.values { operation.cancel() }
        for listener in listeners.withLock({ $0.values.map { $0 } }) { listener.finish() }
    }

    // MARK: Operations

    private func attempt(_ message: SyncStartMessage) async throws {
        let examination = try await examination()
        try machine.examined(examination, for: message.action)
        var request = request
        switch message.action {
        case .existing:
            request.mayCreateApplication = false
            request.registersAgain = examination.isDeregistered
        case .new:
            request.mayCreateApplication = true
            request.registersAgain = examination.finding != .nothing
            if examination.hasDirectory {
                request.replaces = ReplacedApplication(registration: examination.registration)
            }
        }
        let operation = ApplicationRegistrationOperation(request, backend: backend, state: state) {
            [application] question in
            switch (message.action, question) {
            case (.new, .newApplication), (.existing, .joiningEncrypted(passwordWasWrong: false)):
                return .encrypted(message.passcode)
            case (.existing, .joiningEncrypted(passwordWasWrong: true)):
                throw StoreSyncError(.wrongPassword, "The passcode isn't that of \(application). Try again.")
            case (.new, _):
                throw StoreSyncError(
                    .applicationChanged,
                    "Another device has just created \(application). Enter the passcode that was chosen there."
                )
            case (.existing, _):
                throw StoreSyncError(.applicationMissing, "There is no data of \(application) any more. Check again.")
            }
        }
        _ = try await run(operation)
    }

    private func examination() async throws -> PasscodeExamination {
        try await run(PasscodeExaminationOperation(application, backend: backend, state: state))
    }

    /// Runs an operation to its end; cancelling this task cancels the operation.
    private func run<Work: Operation>(_ work: Work, _ options: OperationOptions? = nil) async throws -> Work.Output {
        // The setup may have ended between two operations of an attempt, when there was none to cancel.
        try refuseAfterEnd()
        var options = options ?? OperationOptions()
        options.clientIdentifier = state.knownClient(of: key)
        let handle = supervisor.add(work, options: options)
        running[handle.id] = handle
        defer { running[handle.id] = nil }
        return try await handle.structuredValue
    }

    private func examinationFailed(_ error: StoreSyncError) {
        machine.examinationFailed(error)
        tell()
    }

    private func deregistered(_ error: StoreSyncError) {
        machine.deregistered(error)
        tell()
    }

    private func refuseAfterEnd() throws(StoreSyncError) {
        guard !hasEnded else { throw .notExpected("The setup has ended. Create another one.") }
    }

    private static func reason(_ error: any Error) -> StoreSyncError {
        error as? StoreSyncError
            ?? StoreSyncError(.busy, "The attempt was ended before it was complete. Try again.", cause: error)
    }
}
