/// What went wrong with a key, a password or a sealed file, and what to do about it.
///
/// ``message`` is written for people: it names what is wrong and the remedy, and never a secret. ``code`` is for programs.
/// Cancellation is never one of these: it stays a `CancellationError`.
public struct CryptographyError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    ///
    /// The list may grow: handle the codes you know, show ``CryptographyError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case corrupt, costlyParameters, invalidPassword, orphan, outOfMemory, tampered, tooLarge, truncated
            case unknownEpoch, unsupportedFormat, weakParameters, wrongKey, wrongPassword
        }

        private let name: Name

        /// The code's name.
        public var description: String { name.rawValue }

        /// A key file or a salt file isn't what was written: torn or damaged, whatever the password.
        public static let corrupt = Code(name: .corrupt)
        /// Parameters for hashing passwords that would take the machine's memory or hours: an attack.
        public static let costlyParameters = Code(name: .costlyParameters)
        /// What was given can't be a password: empty, too long or not UTF-8.
        public static let invalidPassword = Code(name: .invalidPassword)
        /// A sealed file belongs to a former epoch of the application: left over, not tampered with.
        public static let orphan = Code(name: .orphan)
        /// The system doesn't give the memory that is needed.
        public static let outOfMemory = Code(name: .outOfMemory)
        /// A sealed file isn't what was sealed for its place: changed, moved, exchanged, put together anew or extended.
        public static let tampered = Code(name: .tampered)
        /// There is more in a sealed file than was expected of it.
        public static let tooLarge = Code(name: .tooLarge)
        /// A sealed file ends before its last chunk: torn, or not all of it has arrived.
        public static let truncated = Code(name: .truncated)
        /// A sealed file belongs to an epoch that this device doesn't know: a newer one, perhaps.
        public static let unknownEpoch = Code(name: .unknownEpoch)
        /// A file isn't one of ours, or a newer program wrote it.
        public static let unsupportedFormat = Code(name: .unsupportedFormat)
        /// Parameters for hashing passwords that make guessing cheap: a downgrade.
        public static let weakParameters = Code(name: .weakParameters)
        /// A key isn't the one that a file was made with, or can't be a key.
        public static let wrongKey = Code(name: .wrongKey)
        /// The password isn't the one that the key file was made with.
        public static let wrongPassword = Code(name: .wrongPassword)
    }

    /// What kind of failure it is.
    public let code: Code
    /// What went wrong and what to do about it, in a sentence or two.
    public let message: String

    /// Creates an error.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The code and the message.
    public var description: String { "\(code): \(message)" }
}
