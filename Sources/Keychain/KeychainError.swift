/// What went wrong with a keychain, and what to do about it.
///
/// ``message`` is written for people: it names what is wrong and the remedy, and never a secret. ``code`` is for programs.
/// Cancellation is never one of these: it stays a `CancellationError`.
public struct KeychainError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    ///
    /// The list may grow: handle the codes you know, show ``KeychainError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case busy, cannotRead, cannotWrite, corrupt, deviceSecretMissing, deviceSecretUnsafe, duplicateItem, full
            case invalidEntitlements, invalidItem, itemNotFound, locked, notEntitled, tampered, unavailable
            case unsupportedFormat, wrongLock, wrongPassphrase
        }

        private let name: Name

        /// The code's name.
        public var description: String { name.rawValue }

        /// Another program holds the keychain's file; try again.
        public static let busy = Code(name: .busy)
        /// A file can't be read: it isn't there, or isn't for this user.
        public static let cannotRead = Code(name: .cannotRead)
        /// A file can't be written: permissions, no space, a wrong kind of file.
        public static let cannotWrite = Code(name: .cannotWrite)
        /// A file isn't what was written: torn or damaged.
        public static let corrupt = Code(name: .corrupt)
        /// The keychain opens by a device secret that isn't where it should be.
        public static let deviceSecretMissing = Code(name: .deviceSecretMissing)
        /// Others than its owner can read or replace the device secret.
        public static let deviceSecretUnsafe = Code(name: .deviceSecretUnsafe)
        /// An item with these attributes is there already.
        public static let duplicateItem = Code(name: .duplicateItem)
        /// A keychain holds as much as it can.
        public static let full = Code(name: .full)
        /// An entitlements file isn't in the correct format.
        public static let invalidEntitlements = Code(name: .invalidEntitlements)
        /// Attributes or a secret that no item can have.
        public static let invalidItem = Code(name: .invalidItem)
        /// No item matches.
        public static let itemNotFound = Code(name: .itemNotFound)
        /// The keychain hasn't been unlocked, or its lock was changed since.
        public static let locked = Code(name: .locked)
        /// The entitlements don't cover the access group.
        public static let notEntitled = Code(name: .notEntitled)
        /// What is in the keychain's file isn't what was sealed there.
        public static let tampered = Code(name: .tampered)
        /// The system's keychain doesn't answer, or not as expected.
        public static let unavailable = Code(name: .unavailable)
        /// A file isn't one of ours, or a newer program wrote it.
        public static let unsupportedFormat = Code(name: .unsupportedFormat)
        /// The keychain opens by a passphrase and a device secret was given, or the other way round; or the device secret is
        /// another one.
        public static let wrongLock = Code(name: .wrongLock)
        /// The passphrase isn't the keychain's.
        public static let wrongPassphrase = Code(name: .wrongPassphrase)
    }

    /// What kind of failure it is.
    public let code: Code
    /// What went wrong and what to do about it, in a sentence or two.
    public let message: String
    /// The error underneath, where there is one.
    public let cause: (any Error)?

    /// Creates an error.
    public init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// The code, the message and, line by line below, what caused it.
    public var description: String {
        guard let cause else { return "\(code): \(message)" }
        return "\(code): \(message)\n└ \(cause)"
    }
}
