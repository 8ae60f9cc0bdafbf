public import Foundation

/// An error of a keychain: what went wrong, and what to do about it.
///
/// ``message`` is for people: it names the problem and the remedy, and never shows a secret. ``code`` is for programs.
/// Cancellation is never reported by this type: it stays a `CancellationError`.
public struct KeychainError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure.
    ///
    /// The list may grow: handle the codes you know, and show ``KeychainError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name.
        public let description: String

        private init(_ description: String) { self.description = description }

        /// Another program has locked the keychain's file: try again.
        public static let busy = Code("busy")
        /// A file can't be read: it doesn't exist, this user may not read it, or the disk has an error.
        public static let cannotRead = Code("cannotRead")
        /// A file can't be written: permissions, no space, a wrong kind of file.
        public static let cannotWrite = Code("cannotWrite")
        /// A file is incomplete or damaged.
        public static let corrupt = Code("corrupt")
        /// The device secret that opens the keychain is missing.
        public static let deviceSecretMissing = Code("deviceSecretMissing")
        /// Users other than its owner can read or replace the device secret.
        public static let deviceSecretUnsafe = Code("deviceSecretUnsafe")
        /// An item with these attributes already exists.
        public static let duplicateItem = Code("duplicateItem")
        /// The keychain has reached one of its limits.
        public static let full = Code("full")
        /// An entitlements file isn't in the correct format.
        public static let invalidEntitlements = Code("invalidEntitlements")
        /// The attributes or the secret aren't valid for an item.
        public static let invalidItem = Code("invalidItem")
        /// No item matches.
        public static let itemNotFound = Code("itemNotFound")
        /// The keychain hasn't been unlocked, or its lock was changed afterwards.
        public static let locked = Code("locked")
        /// The entitlements don't cover the access group.
        public static let notEntitled = Code("notEntitled")
        /// Sealed content of the keychain's file was damaged or tampered with.
        public static let tampered = Code("tampered")
        /// The system's keychain doesn't answer as expected, or a passphrase can't be hashed.
        public static let unavailable = Code("unavailable")
        /// The file has another format, or a newer program wrote it.
        public static let unsupportedFormat = Code("unsupportedFormat")
        /// The lock doesn't belong to the keychain.
        ///
        /// The keychain opens by a passphrase and a device secret was given, or the other way round, or the device secret differs.
        public static let wrongLock = Code("wrongLock")
        /// The passphrase doesn't open the keychain.
        public static let wrongPassphrase = Code("wrongPassphrase")
    }

    /// The kind of failure.
    public let code: Code
    /// What went wrong and what to do about it, in a sentence or two.
    public let message: String
    /// The underlying error, if any.
    public let cause: (any Error)?
    /// Whether a keychain doesn't open because its device secret is damaged.
    package var isSecretDamaged = false

    /// Creates an error.
    public init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// The code and the message, and the underlying error on the next line.
    public var description: String {
        guard let cause else { return "\(code): \(message)" }
        return "\(code): \(message)\n└ \(cause)"
    }
}

extension KeychainError: LocalizedError {
    /// The message, which `localizedDescription` and alerts show.
    public var errorDescription: String? { message }
}
