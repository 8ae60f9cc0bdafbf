import Foundation
public import SyncCryptography

/// What a ``PasscodeSetup`` is started with: a passcode, and what it's for.
///
/// ```swift
/// let message = try SyncStartMessage(passcode: "correct horse", action: .existing)
/// try await setup.start(message)
/// ```
///
/// The passcode is a secret: no description, dump or mirror shows it. ``requestData`` and ``requestDict`` hold it in the
/// clear, for whoever has to send the message on.
public struct SyncStartMessage: Sendable, Equatable {
    /// What the passcode is for.
    public enum Action: String, Sendable, CaseIterable {
        /// To protect new data. What exists is deleted, and every other device deregistered.
        case new = "New"
        /// To unprotect the data that exists.
        case existing = "Existing"
    }

    /// The passcode, which doesn't change.
    public let passcode: Password
    /// What the passcode is for.
    public var action: Action

    /// Creates a message.
    ///
    /// - Parameters:
    ///   - passcode: The passcode.
    ///   - action: What it's for; unless it's said, nothing is deleted.
    public init(passcode: Password, action: Action = .existing) {
        self.passcode = passcode
        self.action = action
    }

    /// Creates a message.
    ///
    /// - Parameters:
    ///   - passcode: The passcode, as a person gave it.
    ///   - action: What it's for; unless it's said, nothing is deleted.
    /// - Throws: ``StoreSyncError/Code/invalidPassword`` for what can't be a passcode.
    public init(passcode: String, action: Action = .existing) throws(StoreSyncError) {
        do {
            self.init(passcode: try Password(passcode), action: action)
        } catch {
            throw StoreSyncError(error)
        }
    }
}

extension SyncStartMessage: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Shows the action alone.
    public var description: String { "syncStart(\(action.rawValue))" }

    /// Shows the action alone.
    public var debugDescription: String { description }

    /// Has no children but the action.
    public var customMirror: Mirror { Mirror(self, children: ["action": action]) }
}
