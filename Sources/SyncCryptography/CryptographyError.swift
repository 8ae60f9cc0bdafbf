public import Foundation

/// An error of a key, a password or a sealed file: what went wrong, and what to do about it.
///
/// ``message`` is for people: it names the problem and the remedy, and never shows a secret. ``code`` is for programs.
/// Cancellation is never reported by this type: it stays a `CancellationError`.
public struct CryptographyError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure.
    ///
    /// The list may grow: handle the codes you know, and show ``CryptographyError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name.
        public let description: String

        private init(_ description: String) { self.description = description }

        /// A key file or a salt file is incomplete or damaged, whatever the password.
        public static let corrupt = Code("corrupt")
        /// Parameters for hashing passwords cost more than this program ever chooses, which indicates an attack.
        public static let costlyParameters = Code("costlyParameters")
        /// Parameters for hashing passwords would take too much of this machine's memory.
        public static let insufficientMemory = Code("insufficientMemory")
        /// A password isn't valid: it's empty, too long or not UTF-8.
        public static let invalidPassword = Code("invalidPassword")
        /// The system doesn't provide the memory that is needed.
        public static let outOfMemory = Code("outOfMemory")
        /// A sealed file isn't what was sealed for its location: it was changed, moved, exchanged, rearranged or extended.
        public static let tampered = Code("tampered")
        /// A sealed file holds more than was expected.
        public static let tooLarge = Code("tooLarge")
        /// A sealed file ends before its last chunk: it's damaged, or hasn't arrived completely.
        public static let truncated = Code("truncated")
        /// A sealed file belongs to another epoch of the application, a former or a newer one; it isn't tampered with.
        public static let otherEpoch = Code("otherEpoch")
        /// The file has another format, or a newer program wrote it.
        public static let unsupportedFormat = Code("unsupportedFormat")
        /// Parameters for hashing passwords make guessing cheap, which indicates a downgrade attack.
        public static let weakParameters = Code("weakParameters")
        /// A key isn't the key of a file, or can't be a key.
        public static let wrongKey = Code("wrongKey")
        /// The password isn't the key file's.
        public static let wrongPassword = Code("wrongPassword")
    }

    /// The kind of failure.
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

extension CryptographyError: LocalizedError {
    /// The message, which `localizedDescription` and alerts show.
    public var errorDescription: String? { message }
}
