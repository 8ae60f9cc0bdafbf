#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// An error of a supervisor itself.
///
/// ``message`` is written for people: it names the problem, and the remedy where there is one. ``code`` is for programs. An
/// operation's own errors and `CancellationError` are passed on as they are.
public struct OperationError: Error, Sendable, CustomStringConvertible {
    /// What is wrong.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name.
        public let description: String

        /// The supervisor holds as many operations as its capacity allows.
        public static let noRoom = Code(description: "noRoom")
        /// The supervisor has been shut down, or was released while it held operations back.
        public static let shutDown = Code(description: "shutDown")
        /// The supervisor has suspended itself, because too many attempts failed in too short a time.
        public static let suspended = Code(description: "suspended")
        /// Waiting for this operation would never end.
        public static let wouldDeadlock = Code(description: "wouldDeadlock")
        /// The operation has started or ended, so its dependencies can't be changed any more.
        public static let alreadyStarted = Code(description: "alreadyStarted")
        /// A child needs a key that its parent doesn't hold.
        public static let keyNotHeld = Code(description: "keyNotHeld")
        /// The operation has ended, or its `main` has, so it accepts no children.
        public static let parentEnded = Code(description: "parentEnded")
        /// The operation exceeded its deadline.
        public static let deadlineExceeded = Code(description: "deadlineExceeded")
        /// The operation reported no progress within its stall timeout.
        public static let stalled = Code(description: "stalled")
        /// The operation didn't end when the supervisor was shut down, and may still run.
        public static let abandoned = Code(description: "abandoned")
        /// The operation's temporary directory can't be created.
        public static let temporaryDirectoryUnavailable = Code(description: "temporaryDirectoryUnavailable")
    }

    /// What is wrong.
    public let code: Code
    /// What is wrong, in words, and what to do.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The code and the message.
    public var description: String { "\(code): \(message)" }
}

extension OperationError: LocalizedError {
    /// The message, which `localizedDescription` and alerts show.
    public var errorDescription: String? { message }
}
