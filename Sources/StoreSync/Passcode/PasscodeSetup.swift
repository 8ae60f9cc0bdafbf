import Foundation
public import Operations
public import RemoteStorage
public import SyncCryptography
import ThreadSupport

/// Sets a device up by a passcode that protects an application's data on the remote.
///
/// ```swift
/// let setup = manager.passcodeSetup()
/// async let examined: Void = setup.begin()
/// for await status in await setup.states {
///     switch (status.setupState, status.syncPasscodeState) {
///     case (.syncRequired, .new): await ask("Take a passcode for your data.", .new)
///     case (.syncRequired, .existing): await ask("Give the passcode of your data.", .existing, status.syncError)
///     case (.ongoing, _): await synchronize()
///     default: await showProgress()
///     }
/// }
/// ```
///
/// ``begin(retry:)`` looks what there is. Then, in the state `syncRequired`, ``Status/syncPasscodeState`` says what a
/// passcode is needed for: `new` if there is no data, `existing` if there is, and `none` while nobody knows, when an app has to
/// wait. ``start(_:)`` takes the passcode: the state is `syncStarted` meanwhile, and `ongoing` after a success. After a
/// failure it's `syncRequired` again, ``Status/syncError`` says why, and everything may be tried again.
///
/// A passcode with the action `new` where there is data **deletes it all** and makes the application anew, with another epoch
/// and other keys, so that every other device is deregistered: its next operation fails with
/// ``StoreSyncError/Code/deregistered``, its setup goes back to `syncRequired` and `existing`, and it needs the new passcode.
/// A device that has the former keys leaves a proof of that (``SyncCryptography/SuccessorProof``), by which the others tell
/// it from a storage that plays tricks: ``StoreSyncError/isSuccessorProven``. A device that is set up may do that too. What
/// was only on the remote is gone then; a local store is pushed to the new application by the device that made it.
///
/// If the device dies at any moment of it, there is the former application, the new one, or one that says that it's
/// incomplete; the setup of whichever device comes next finishes or undoes the rest. Of two that begin anew at once one
/// wins, and the other's attempt fails with ``StoreSyncError/Code/applicationChanged``.
public actor PasscodeSetup {
    /// The application.
    public nonisolated let application: RemoteIdentifier
    private let request: ApplicationRegistrationRequest
    private let backend: any RemoteBackend
    private let state: StateDirectory
    private let supervisor: OperationSupervisor
    /// By what this is known to whoever finds out that the device isn't registered any more.
    private let observer = UUID()
    private let listeners = Locked<[UUID: AsyncStream<Status>.Continuation]>([:])

    private var machine = PasscodeSetupMachine()
    private var running: [OperationID: any OperationReference] = [:]
    private var isChangingPasscode = false
    private var hasEnded = false

    /// How many states may wait for a reader: more than people give passcodes before somebody looks.
    private static let bufferedStates = 64

    /// Creates a setup.
    ///
    /// - Parameters:
    ///   - request: The application, and what this device is called in it. Whether it may be made and must be encrypted
    ///     follows from the passcodes that are given.
    ///   - backend: Where.
    ///   - state: This device's memory.
    ///   - supervisor: What runs the operations.
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
        let key = ApplicationKey(remote: backend.identity, application: request.application.rawValue)
        state.deregistrations.add(observer, for: key) { [weak self] error in await self?.deregistered(error) }
    }

    deinit {
        state.deregistrations.remove(observer)
        for listener in listeners.withLock({ $0.values.map { $0 } }) { listener.finish() }
    }

    // MARK: What is so

    /// Where the setup stands.
    public var status: Status { machine.status }
    /// How far this device is set up.
    public var setupState: SetupState { status.setupState }
    /// What a passcode is needed for.
    public var syncPasscodeState: SyncPasscodeState { status.syncPasscodeState }
    /// Why the last attempt ended without success, or what is wrong with what was found.
    public var syncError: StoreSyncError? { status.syncError }

    /// Where the setup stands now, and then every change: a sequence of its own for every call.
    ///
    /// A reader that is more than 64 changes behind misses the oldest, never the last. The sequence ends with ``end()``, or
    /// when nobody holds the setup any more; reading it doesn't hold it.
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

    // MARK: What may be done

    /// Looks what there is, and whether this device is set up for it.
    ///
    /// As long as the storage can't be reached the state is `syncRequired` and `none`, with the reason in ``syncError``. May be
    /// called again at any time but while a passcode is tried.
    ///
    /// - Parameter retry: Whether and when a failure is tried again; where this is `nil`, until the storage can be reached, at
    ///   least once a minute.
    /// - Throws: ``StoreSyncError`` if it couldn't be found out, ``StoreSyncError/Code/notExpected`` while a passcode is
    ///   tried; `CancellationError`.
    public func begin(retry: RetryPolicy? = nil) async throws {
        try refuseAfterEnd()
        try machine.beginExamination()
        tell()
        let untilReached = RetryPolicy(maximumAttempts: .max) {
            ($0 as? StoreSyncError)?.code == .remoteUnavailable
        }
        let examination = try await run(
            PasscodeExaminationOperation(application, backend: backend, state: state) { [weak self] error in
                await self?.examinationFailed(error)
            },
            OperationOptions(retry: retry ?? untilReached)
        )
        machine.examined(examination)
        tell()
    }

    /// Tries a passcode, or protects new data by it.
    ///
    /// Ends when that has succeeded or failed; the same is told by ``states``. Cancelling the task that calls this ends the
    /// attempt.
    ///
    /// - Parameter message: The passcode, and what it's for.
    /// - Throws: The ``StoreSyncError`` that is then the ``syncError``; ``StoreSyncError/Code/notExpected``, which changes
    ///   nothing, where the state is another than `syncRequired` or what there is isn't known yet;
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
            // What nobody has decided about yet is what the next decision is about.
            let isOther = [.applicationChanged, .deregistered].contains(reason?.code)
            machine.failed(reason, now: isOther ? try? await examination() : nil)
            tell()
            throw reason ?? error
        }
    }

    /// Changes the passcode of the application that this device is set up for.
    ///
    /// The former one isn't asked for: make sure who it is that asks. Nobody is deregistered.
    ///
    /// - Parameter passcode: The new passcode.
    /// - Returns: How many passcodes there have been.
    /// - Throws: ``StoreSyncError/Code/notExpected`` where this device isn't set up, or is just changing the passcode; what
    ///   ``PasswordChangeOperation`` throws; `CancellationError`.
    @discardableResult
    public func changePasscode(to passcode: Password) async throws -> Int {
        try refuseAfterEnd()
        guard setupState == .ongoing, !isChangingPasscode else {
            throw .notExpected(
                isChangingPasscode ? "The passcode is just being changed." : "This device isn't set up yet."
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

    /// Ends the setup: what it's doing is cancelled, ``states`` end, and nothing can be begun any more.
    public func end() {
        hasEnded = true
        state.deregistrations.remove(observer)
        for operation in running.values { operation.cancel() }
        for listener in listeners.withLock({ $0.values.map { $0 } }) { listener.finish() }
    }

    // MARK: Doing it

    private func attempt(_ message: SyncStartMessage) async throws {
        let examination = try await examination()
        try machine.examined(examination, for: message.action)
        var request = request
        switch message.action {
        case .existing:
            request.mayCreateApplication = false
            request.startsAnew = examination.isDeregistered
        case .new:
            request.mayCreateApplication = true
            request.startsAnew = examination.finding != .nothing
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
                throw StoreSyncError(.wrongPassword, "The passcode isn't the one of \(application). Try again.")
            case (.new, _):
                throw StoreSyncError(
                    .applicationChanged,
                    "Another device has just made \(application). Give the passcode that it has taken."
                )
            case (.existing, _):
                throw StoreSyncError(.applicationMissing, "There is no data of \(application) any more. Look again.")
            }
        }
        _ = try await run(operation)
    }

    private func examination() async throws -> PasscodeExamination {
        try await run(PasscodeExaminationOperation(application, backend: backend, state: state))
    }

    /// Runs an operation to its end, which comes soon if this task is cancelled.
    private func run<Work: Operation>(_ work: Work, _ options: OperationOptions? = nil) async throws -> Work.Output {
        let handle = supervisor.add(work, options: options)
        running[handle.id] = handle
        defer { running[handle.id] = nil }
        return try await withTaskCancellationHandler {
            try await handle.resultAtEnd.get()
        } onCancel: {
            handle.cancel()
        }
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
        guard !hasEnded else { throw .notExpected("The setup has ended. Make another one.") }
    }

    private static func reason(_ error: any Error) -> StoreSyncError {
        error as? StoreSyncError
            ?? StoreSyncError(.busy, "The attempt was ended before it had come to an end. Try again.", cause: error)
    }
}
