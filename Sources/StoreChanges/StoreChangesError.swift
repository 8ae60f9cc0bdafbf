public import Foundation

/// What went wrong while changes of a store were captured, read or applied, and what to do about it.
///
/// ``message`` is written for the person in front of the device; ``code`` is for programs.
public struct StoreChangesError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    ///
    /// The list may grow: handle the codes you know, show ``StoreChangesError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name, as scripts know it.
        public let description: String

        private init(_ description: String) { self.description = description }

        /// Another program is using the store; close it there, or try again.
        public static let busy = Code("busy")
        /// What a conflict lost can't be put back, because a constraint of the store refuses it.
        public static let cannotRestore = Code("cannotRestore")
        /// A file can't be written or read: permissions, no space, a wrong kind of file, a fault of the disk.
        public static let cannotWrite = Code("cannotWrite")
        /// The conflict log has no entry of that number.
        public static let conflictNotFound = Code("conflictNotFound")
        /// A file's content isn't what was written.
        public static let corrupt = Code("corrupt")
        /// This device has to continue as another client.
        public static let identityTwice = Code("identityTwice")
        /// The document's rules name a table, a column or an index that the store doesn't have, or doesn't have any more.
        public static let invalidRules = Code("invalidRules")
        /// More than half of a table's rows are gone, which may be a mistake.
        public static let massDeletion = Code("massDeletion")
        /// Other devices have a newer schema than this device's app, or the replica has: update the app.
        public static let newerSchema = Code("newerSchema")
        /// Edits of other devices have not arrived that this device needs to publish its own; try again later.
        public static let setsMissing = Code("setsMissing")
        /// The store doesn't exist, or isn't an SQLite database that can be read.
        public static let storeNotFound = Code("storeNotFound")
        /// The replica belongs to another store: this one is a copy, a restored backup, or a different store.
        public static let storeReplaced = Code("storeReplaced")
        /// A table can't synchronize as the app defines it now, and did before: update the app to a version that mends it.
        public static let unsuitableTable = Code("unsuitableTable")
        /// A file was written by a program, or a version of it, that this program doesn't know.
        public static let unsupportedFormat = Code("unsupportedFormat")
    }

    /// What kind of failure it is.
    public var code: Code
    /// What went wrong and what to do about it, in a sentence or two.
    public var message: String
    /// The underlying error, if there is one.
    public var cause: (any Error)?

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

extension StoreChangesError: LocalizedError {
    /// The message, which `localizedDescription` and alerts show.
    public var errorDescription: String? { message }
}
