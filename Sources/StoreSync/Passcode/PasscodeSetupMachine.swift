extension PasscodeSetup {
    /// How far this device is set up.
    public enum SetupState: Sendable, Hashable, CaseIterable {
        /// Nobody has asked for a setup.
        case notRequested
        /// A passcode is needed: ``PasscodeSetup/Status/syncPasscodeState`` says for what.
        case syncRequired
        /// A passcode is being tried.
        case syncStarted
        /// This device is set up, and synchronizes.
        case ongoing
    }

    /// What a passcode is needed for.
    public enum SyncPasscodeState: Sendable, Hashable, CaseIterable {
        /// It isn't known yet: wait.
        case none
        /// There is no data on the remote: a passcode protects new data.
        case new
        /// There is data on the remote: its passcode unprotects it, or another one protects new data in its place.
        case existing
    }

    /// Where a setup stands.
    public struct Status: Sendable, CustomStringConvertible {
        /// How far this device is set up.
        public internal(set) var setupState = SetupState.notRequested
        /// What a passcode is needed for.
        public internal(set) var syncPasscodeState = SyncPasscodeState.none
        /// Why the last attempt ended without success, or what is wrong with what was found.
        ///
        /// Its code is the reason, as programs know it: `wrongPassword`, `corrupt` and `tampered` for damaged data,
        /// `remoteUnavailable` and `remoteUnauthorized` for the storage, `applicationChanged` for what changed meanwhile,
        /// `deregistered` with ``StoreSyncError/isSuccessorProven``.
        public internal(set) var syncError: StoreSyncError?

        /// Both states, and the error's code.
        public var description: String {
            "\(setupState), \(syncPasscodeState)" + (syncError.map { ", \($0.code)" } ?? "")
        }
    }
}

/// The states of a ``PasscodeSetup``, and what may follow on each.
///
/// It does nothing itself.
struct PasscodeSetupMachine: Sendable {
    private(set) var status = PasscodeSetup.Status()
    /// What was found last, about which somebody decides.
    private var known: PasscodeExamination?
    /// Whether the attempt began on a device that is set up.
    private var wasOngoing = false

    // MARK: Looking

    /// Somebody asks what there is.
    mutating func beginExamination() throws(StoreSyncError) {
        switch status.setupState {
        case .syncStarted: throw .notExpected("A passcode is just being tried. Wait until that has ended.")
        case .notRequested:
            status.setupState = .syncRequired
            status.syncPasscodeState = .none
        case .syncRequired, .ongoing: break
        }
    }

    mutating func examined(_ examination: PasscodeExamination) {
        // Somebody has begun to try a passcode meanwhile: that settles it.
        guard status.setupState != .syncStarted else { return }
        found(examination)
        status.syncError = examination.trouble
        status.setupState = examination.finding == .current ? .ongoing : .syncRequired
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

    /// Nobody knows what there is; it may be tried again.
    mutating func examinationFailed(_ error: StoreSyncError) {
        guard status.setupState == .syncRequired else { return }
        status.syncError = error
    }

    // MARK: Trying

    /// A passcode comes.
    mutating func start(_ action: SyncStartMessage.Action) throws(StoreSyncError) {
        switch (status.setupState, action) {
        case (.notRequested, _): throw .notExpected("Nobody has asked for the setup yet. Begin it first.")
        case (.syncStarted, _): throw .notExpected("A passcode is just being tried. Wait until that has ended.")
        case (.ongoing, .existing): throw .notExpected("This device is set up already.")
        case (.syncRequired, _) where status.syncPasscodeState == .none && !(isMissing && action == .new):
            throw .notExpected("It isn't known yet what is on the remote. Wait until it is.")
        case (.syncRequired, _), (.ongoing, .new): break
        }
        wasOngoing = status.setupState == .ongoing
        status.setupState = .syncStarted
        status.syncError = nil
    }

    private var isMissing: Bool { known?.finding == .missing }

    /// What there is now, right before something is done about it: refuses what nobody has decided about.
    mutating func examined(_ now: PasscodeExamination, for action: SyncStartMessage.Action) throws(StoreSyncError) {
        let former = known
        found(now)
        switch (action, now.finding) {
        case (.existing, .nothing), (.existing, .missing):
            throw now.trouble
                ?? StoreSyncError(.applicationMissing, "There is no data on the remote. Take a passcode for new data.")
        case (.existing, _): break
        case (.new, _):
            // Who knows nothing of it decides about what the device is set up for, or was deregistered from.
            guard former.map(now.isSame) ?? (now.finding == (wasOngoing ? .current : .existing)) else {
                throw StoreSyncError(
                    .applicationChanged,
                    "What is on the remote has changed meanwhile. Nothing of it was changed. Look again, and decide anew."
                )
            }
        }
    }

    /// The passcode was the right one, or protects new data now.
    mutating func succeeded() {
        status = PasscodeSetup.Status(setupState: .ongoing, syncPasscodeState: .existing)
        known = nil
    }

    /// The attempt ended without success: every action may be taken again.
    ///
    /// - Parameters:
    ///   - error: Why; `nil` if it was cancelled.
    ///   - now: What there is, where somebody looked again.
    mutating func failed(_ error: StoreSyncError?, now: PasscodeExamination?) {
        if let now { found(now) }
        status.setupState = .syncRequired
        status.syncError = error
    }

    /// An operation found out that this device isn't registered any more.
    mutating func deregistered(_ error: StoreSyncError) {
        // Who is just looking or trying finds out too.
        guard status.setupState == .ongoing else { return }
        status = PasscodeSetup.Status(setupState: .syncRequired, syncPasscodeState: .existing, syncError: error)
        known = nil
    }
}

extension StoreSyncError {
    static func notExpected(_ message: String) -> StoreSyncError { StoreSyncError(.notExpected, message) }
}
