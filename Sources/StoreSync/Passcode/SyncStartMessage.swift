import Foundation
public import SyncCryptography

/// The message that starts a ``PasscodeSetup``: a passcode, and what it's for.
///
/// ```swift
/// let message = try SyncStartMessage(passcode: "correct horse", action: .existing)
/// try await setup.start(message)
/// ```
///
/// The passcode is a secret: no description, dump or mirror shows it. ``requestData`` and ``requestDict`` contain it
/// in plaintext, for apps that have to pass the message on.
public struct SyncStartMessage: Sendable, Equatable {
    /// What the passcode is for.
    public enum Action: String, Sendable, CaseIterable {
        /// Protects new data, deletes the existing data and deregisters every other device.
        case new = "New"
        /// Unprotects the existing data.
        case existing = "Existing"
    }

    /// The passcode, which is immutable.
    public let passcode: Password
    /// What the passcode is for.
    public var action: Action

    /// Creates a message.
    ///
    /// - Parameters:
    ///   - passcode: The passcode.
    ///   - action: What it's for; the default deletes nothing.
    public init(passcode: Password, action: Action = .existing) {
        self.passcode = passcode
        self.action = action
    }

    /// Creates a message.
    ///
    /// - Parameters:
    ///   - passcode: The passcode, as the user entered it.
    ///   - action: What it's for; the default deletes nothing.
    /// - Throws: ``StoreSyncError/Code/invalidPassword`` if the text can't be a passcode.
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
