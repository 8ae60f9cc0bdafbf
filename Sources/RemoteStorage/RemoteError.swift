/// What went wrong at a place where files are kept, and what to do about it.
///
/// ``message`` is written for people: it names what is wrong and the remedy. ``code`` is for programs. Cancellation is
/// never one of these: it stays a `CancellationError`.
public struct RemoteError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    ///
    /// The list may grow: handle the codes you know, show ``RemoteError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case alreadyExists, invalidIdentifier, invalidPath, noSpace, notAllowed, notFound, preconditionFailed
            case unauthorized, unavailable, unsupported, wrongKind, wrongLength
        }

        private let name: Name

        /// The code's name.
        public var description: String { name.rawValue }

        /// Something of that name is there, and it must not be replaced.
        public static let alreadyExists = Code(name: .alreadyExists)
        /// A string that can't be a ``RemoteIdentifier``.
        public static let invalidIdentifier = Code(name: .invalidIdentifier)
        /// A string that can't be a ``RemotePath``, or a path that the request can't be about.
        public static let invalidPath = Code(name: .invalidPath)
        /// The place, or the share of it that belongs to this user, is full.
        public static let noSpace = Code(name: .noSpace)
        /// Permissions, a read-only place, or a symbolic link in the path.
        public static let notAllowed = Code(name: .notAllowed)
        /// What the request is about isn't there.
        public static let notFound = Code(name: .notFound)
        /// The file isn't the version that ``WriteCondition/ifMatches(_:)`` names.
        public static let preconditionFailed = Code(name: .preconditionFailed)
        /// The place refuses the credentials.
        public static let unauthorized = Code(name: .unauthorized)
        /// The place can't be reached or doesn't work; the same request may succeed later.
        public static let unavailable = Code(name: .unavailable)
        /// The place can't do this at all.
        public static let unsupported = Code(name: .unsupported)
        /// A directory stands where a file is needed, or the other way round.
        public static let wrongKind = Code(name: .wrongKind)
        /// A content is longer or shorter than it may be.
        public static let wrongLength = Code(name: .wrongLength)
    }

    /// What kind of failure it is.
    public var code: Code
    /// What went wrong and what to do about it, in a sentence or two.
    public var message: String
    /// What the request was about, where it was about one path.
    public var path: RemotePath?
    /// The error underneath, where there is one.
    public var cause: (any Error)?

    /// Creates an error.
    public init(_ code: Code, _ message: String, path: RemotePath? = nil, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.path = path
        self.cause = cause
    }

    /// The code, the message and, line by line below, what caused it.
    public var description: String {
        guard let cause else { return "\(code): \(message)" }
        return "\(code): \(message)\n└ \(cause)"
    }
}
