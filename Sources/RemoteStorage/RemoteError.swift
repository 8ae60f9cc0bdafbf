public import Foundation

/// A failure of a storage, and what to do about it.
///
/// ``message`` is written for people: it names the problem and the remedy. ``code`` is for programs. Cancellation is
/// never a `RemoteError`: it stays a `CancellationError`.
public struct RemoteError: Error, Sendable, CustomStringConvertible {
    /// The kind of a failure.
    ///
    /// The list may grow: handle the codes you know, show ``RemoteError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name.
        public let description: String

        private init(_ description: String) { self.description = description }

        /// An item of that name exists, and it must not be replaced.
        public static let alreadyExists = Code("alreadyExists")
        /// A string that can't be a ``RemoteIdentifier``.
        public static let invalidIdentifier = Code("invalidIdentifier")
        /// A string that can't be a ``RemotePath``, or a path that isn't valid for the request.
        public static let invalidPath = Code("invalidPath")
        /// The storage, or this user's share of it, is full.
        public static let noSpace = Code("noSpace")
        /// Permissions, a read-only storage, or a symbolic link in the path forbid the request.
        public static let notAllowed = Code("notAllowed")
        /// The item that the request names doesn't exist.
        public static let notFound = Code("notFound")
        /// The file isn't the version that ``WriteCondition/ifMatches(_:)`` names.
        public static let preconditionFailed = Code("preconditionFailed")
        /// The storage refuses the credentials.
        public static let unauthorized = Code("unauthorized")
        /// The storage can't be reached or doesn't work; the same request may succeed later.
        public static let unavailable = Code("unavailable")
        /// The storage doesn't support the request.
        public static let unsupported = Code("unsupported")
        /// The item is a directory where a file is needed, or the reverse.
        public static let wrongKind = Code("wrongKind")
        /// A content is longer or shorter than allowed.
        public static let wrongLength = Code("wrongLength")
    }

    /// The kind of the failure.
    public var code: Code
    /// What went wrong and what to do about it, in a sentence or two.
    public var message: String
    /// The path of the request, if it concerns a single path.
    public var path: RemotePath?
    /// The underlying error, if there is one.
    public var cause: (any Error)?

    /// Creates an error.
    public init(_ code: Code, _ message: String, path: RemotePath? = nil, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.path = path
        self.cause = cause
    }

    /// The code, the message and, each on its own line, the causes.
    public var description: String {
        guard let cause else { return "\(code): \(message)" }
        return "\(code): \(message)\n└ \(cause)"
    }
}

extension RemoteError: LocalizedError {
    /// The message, which `localizedDescription` and alerts show.
    public var errorDescription: String? { message }
}
