extension PasscodeSetup {
    /// How far this device is set up.
    public enum SetupState: Sendable, Hashable, CaseIterable {
        /// The setup hasn't been requested.
        case notRequested
        /// A passcode is needed; ``PasscodeSetup/Status/syncPasscodeState`` says what for.
        case syncRequired
        /// A passcode is being tried.
        case syncStarted
        /// This device is set up, and synchronizes.
        case ongoing
    }

    /// What a passcode is needed for.
    public enum SyncPasscodeState: Sendable, Hashable, CaseIterable {
        /// Not known yet: the app has to wait, unless the error is `applicationMissing`.
        case none
        /// The remote has no data: a passcode protects new data.
        case new
        /// The remote has data: its passcode unprotects it, or another passcode protects new data that replaces it.
        case existing
    }

    /// The state of a setup.
    public struct Status: Sendable, CustomStringConvertible {
        /// How far this device is set up.
        public internal(set) var setupState = SetupState.notRequested
        /// What a passcode is needed for.
        public internal(set) var syncPasscodeState = SyncPasscodeState.none
        /// Why the last attempt failed, or what is wrong with the application on the remote.
        ///
        /// Its code is the reason for programs: `wrongPassword`, `corrupt` and `tampered` for damaged data,
        /// `remoteUnavailable` and `remoteUnauthorized` for the storage, `applicationChanged` for a change in the
        /// meantime, `deregistered` with ``StoreSyncError/isSuccessorProven``.
        public internal(set) var syncError: StoreSyncError?

        /// Both states, and the error's code.
        public var description: String {
            "\(setupState), \(syncPasscodeState)" + (syncError.map { ", \($0.code)" } ?? "")
        }
    }
}

/// The states of a ``PasscodeSetup``, and the transitions between them.
///
/// It performs no I/O.
struct PasscodeSetupMachine: Sendable {
    private(set) var status = PasscodeSetup.Status()
    /// The last examination, which the user's decision is about.
    private var known: PasscodeExamination?
    /// Whether the attempt began on a device that is set up.
    private var wasOngoing = false
    /// Why the last attempt failed, until the app's next request.
    private var attemptError: StoreSyncError?
    /// The number of attempts that have started or ended, and of deregistrations.
    private var changeCount = 0

    // MARK: Examining

    /// The app has requested an examination, and knows why the last attempt failed.
    mutating func forgetAttempt() { attemptError = nil }

    /// An examination begins.
    ///
    /// - Returns: The number that its result comes with.
    @discardableResult
    mutating func beginExamination() throws(StoreSyncError) -> Int {
        switch status.setupState {
        case .syncStarted: throw .notExpected("A passcode is being tried. Wait until that has ended.")
        case .notRequested:
            status.setupState = .syncRequired
            status.syncPasscodeState = .none
        case .syncRequired, .ongoing: break
        }
        return changeCount
    }

    /// An examination has ended.
    ///
    /// - Parameters:
    ///   - examination: Its result.
    ///   - number: What ``beginExamination()`` returned.
    /// - Returns: Whether the result counts. It doesn't if an attempt has started or ended in the meantime, or if this device
    ///   was deregistered, since the result may be from before.
    @discardableResult
    mutating func examined(_ examination: PasscodeExamination, number: Int) -> Bool {
        guard number == changeCount else { return false }
        found(examination)
        let isSetUp = examination.finding == .current
        status.setupState = isSetUp ? .ongoing : .syncRequired
        status.syncError = examination.trouble ?? (isSetUp ? nil : attemptError)
        return true
    }

    private mutating func found(_ examination: PasscodeExamination) {
        known = examination
        status.syncPasscodeState =
            switch examination.finding {
            case .nothing: .new
            case .missing: .none
            case .existing, .current: .existing
            }
    }

    /// The examination failed; it may be retried.
    mutating func examinationFailed(_ error: StoreSyncError) {
        guard status.setupState == .syncRequired else { return }
        status.syncError = error
    }

    // MARK: Trying a passcode

    /// A passcode is to be tried.
    mutating func start(_ action: SyncStartMessage.Action) throws(StoreSyncError) {
        switch (status.setupState, action) {
        case (.notRequested, _): throw .notExpected("The setup hasn't been requested. Request it first.")
        case (.syncStarted, _): throw .notExpected("A passcode is being tried. Wait until that has ended.")
        case (.ongoing, .existing): throw .notExpected("This device is set up already.")
        case (.syncRequired, _) where status.syncPasscodeState == .none && !(isMissing && action == .new):
            throw .notExpected("The remote hasn't been examined yet. Wait until it has been.")
        case (.syncRequired, _), (.ongoing, .new): break
        }
        // An attempt that failed before it found anything changes nothing of what the decision is about.
        wasOngoing = status.setupState == .ongoing || wasOngoing && known == nil
        changeCount += 1
        status.setupState = .syncStarted
        (status.syncError, attemptError) = (nil, nil)
    }

    private var isMissing: Bool { known?.finding == .missing }

    /// The application was examined right before the attempt: throws if the user's decision doesn't apply to it.
    mutating func examined(_ now: PasscodeExamination, for action: SyncStartMessage.Action) throws(StoreSyncError) {
        let former = known
        found(now)
        switch (action, now.finding) {
        case (.existing, .nothing), (.existing, .missing):
            throw now.trouble
                ?? StoreSyncError(.applicationMissing, "The remote has no data. Choose a passcode for new data.")
        case (.existing, _): break
        case (.new, _):
            // Without an earlier examination, the decision is about the application that this device is set up for, or
            // was deregistered from.
            guard former.map(now.isSame) ?? (now.finding == (wasOngoing ? .current : .existing)) else {
                throw StoreSyncError(
                    .applicationChanged,
                    "The application on the remote has changed in the meantime. Nothing was written. Check it and decide again."
                )
            }
        }
    }

    /// The passcode was correct, or protects new data now.
    mutating func succeeded() {
        status = PasscodeSetup.Status(setupState: .ongoing, syncPasscodeState: .existing)
        known = nil
        changeCount += 1
    }

    /// The attempt failed or was cancelled; every action is allowed again.
    ///
    /// - Parameters:
    ///   - error: The reason; `nil` if the attempt was cancelled.
    ///   - now: A new examination, if there was one.
    mutating func failed(_ error: StoreSyncError?, now: PasscodeExamination?) {
        if let now { found(now) }
        changeCount += 1
        status.setupState = .syncRequired
        (status.syncError, attemptError) = (error, error)
    }

    /// An operation found out that this device isn't registered any more.
    mutating func deregistered(_ error: StoreSyncError) {
        // A running examination or attempt detects this itself.
        guard status.setupState == .ongoing else { return }
        status = PasscodeSetup.Status(setupState: .syncRequired, syncPasscodeState: .existing, syncError: error)
        (known, wasOngoing) = (nil, false)
        changeCount += 1
    }
}

extension StoreSyncError {
    static func notExpected(_ message: String) -> StoreSyncError { StoreSyncError(.notExpected, message) }
}
