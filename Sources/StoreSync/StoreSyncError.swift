public import Foundation

/// What went wrong while a store was synchronized, and what to do about it.
///
/// ``message`` is written for the person in front of the device: it names what is wrong and the remedy. ``code`` is for
/// programs; its ``Code/description`` is the word that the `storesync` command prints as `error.code`.
public struct StoreSyncError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    ///
    /// The list may grow: handle the codes you know, show ``StoreSyncError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name, as scripts know it.
        public let description: String

        init(_ description: String) { self.description = description }

        /// The application on the remote was created or replaced after the caller decided something about it.
        public static let applicationChanged = Code("applicationChanged")
        /// The application isn't on the remote, and this command or device must not create it.
        public static let applicationMissing = Code("applicationMissing")
        /// Part of the application is on the remote, but its registration isn't: it's still arriving, or it was
        /// damaged.
        public static let applicationIncomplete = Code("applicationIncomplete")
        /// Another program or device is working on the same store or document; try again.
        public static let busy = Code("busy")
        /// What a conflict lost can't be written into the store as it is now, for a reason that ``ConflictLog/restore(_:)`` lists.
        public static let cannotRestore = Code("cannotRestore")
        /// A file could not be written, or read here: permissions, no space, a wrong kind of file, a fault of the disk.
        public static let cannotWrite = Code("cannotWrite")
        /// The application has no client of that identifier.
        public static let clientNotFound = Code("clientNotFound")
        /// The conflict log has no entry of that number.
        public static let conflictNotFound = Code("conflictNotFound")
        /// A file's content isn't what was written.
        public static let corrupt = Code("corrupt")
        /// This client was removed from the application, or the application was recreated: set the client up again.
        public static let deregistered = Code("deregistered")
        /// Several uploaded stores hold edits that the others don't.
        public static let diverged = Code("diverged")
        /// The document was deleted.
        public static let documentDeleted = Code("documentDeleted")
        /// The document's info is missing from the remote, and no authentic note says that the document was deleted.
        public static let documentMissing = Code("documentMissing")
        /// No document of that name is registered, or a store belongs to several and none was named.
        public static let documentNotFound = Code("documentNotFound")
        /// The document was deleted and recreated; the local store belongs to the former document.
        public static let documentReplaced = Code("documentReplaced")
        /// The document is synchronized record by record, so pushes, pulls over a store, and other rules are refused.
        public static let documentSynchronizes = Code("documentSynchronizes")
        /// The application was encrypted when this device last saw it, and isn't now.
        public static let encryptionDowngraded = Code("encryptionDowngraded")
        /// The caller's decision on encryption doesn't match the application.
        public static let encryptionMismatch = Code("encryptionMismatch")
        /// The caller hasn't decided whether to encrypt.
        public static let encryptionUndecided = Code("encryptionUndecided")
        /// Another device publishes change sets under this device's identity.
        public static let identityTwice = Code("identityTwice")
        /// Hashing the application's password takes more memory than this machine has to give.
        public static let insufficientMemory = Code("insufficientMemory")
        /// An identifier that can't be one path component on every storage.
        public static let invalidIdentifier = Code("invalidIdentifier")
        /// A message can't be read: its JSON doesn't have the expected form.
        public static let invalidMessage = Code("invalidMessage")
        /// The given text can't be a password.
        public static let invalidPassword = Code("invalidPassword")
        /// The document's rules name a table, a column or an index that the store doesn't have, or doesn't have any more.
        public static let invalidRules = Code("invalidRules")
        /// The values that an app wants to save with a client or a document are too large, or nested too deep.
        public static let invalidUserInfo = Code("invalidUserInfo")
        /// This device's keychain can't be opened: its secret is missing, or isn't protected from other users.
        public static let keychainLocked = Code("keychainLocked")
        /// The local store was changed since it was last pushed or pulled; replacing it would lose these changes.
        public static let localChanges = Code("localChanges")
        /// More than half of a table's rows are gone, which may be a mistake.
        public static let massDeletion = Code("massDeletion")
        /// The store has an older schema than its edits: the app on this device is older than on others, or than it was.
        public static let newerSchema = Code("newerSchema")
        /// No client has uploaded a store of the document, or none has arrived completely.
        public static let noUploadedStore = Code("noUploadedStore")
        /// The caller isn't entitled to an access group of a keychain.
        public static let notEntitled = Code("notEntitled")
        /// A setup received a request that it doesn't accept in its present state.
        public static let notExpected = Code("notExpected")
        /// A sealed file belongs to another epoch of the application: it's left over, or the application was recreated.
        public static let orphan = Code("orphan")
        /// The application is encrypted, and this device has neither its keys nor a password.
        public static let passwordRequired = Code("passwordRequired")
        /// The storage refuses the credentials.
        public static let remoteUnauthorized = Code("remoteUnauthorized")
        /// The storage can't be reached or doesn't work.
        public static let remoteUnavailable = Code("remoteUnavailable")
        /// The remote holds an older state than this device has seen.
        public static let rolledBack = Code("rolledBack")
        /// The local store was written to while it was copied.
        public static let storeChanged = Code("storeChanged")
        /// The local store doesn't exist or isn't a file that can be read.
        public static let storeNotFound = Code("storeNotFound")
        /// This device remembers another store: this one, or its memory, is a copy or a restored backup, or they are different.
        public static let storeReplaced = Code("storeReplaced")
        /// A sealed file isn't what was sealed for its path: it was changed, moved or exchanged.
        public static let tampered = Code("tampered")
        /// The local store descends from no upload of the document that this device knows.
        public static let unrelatedStore = Code("unrelatedStore")
        /// A table can't synchronize as the app defines it now, and did before: update the app to a version that mends it.
        public static let unsuitableTable = Code("unsuitableTable")
        /// A file was written by a program, or a version of it, that this program doesn't know.
        public static let unsupportedFormat = Code("unsupportedFormat")
        /// The storage lacks a capability without which the operation isn't safe.
        public static let unsupportedStorage = Code("unsupportedStorage")
        /// The password isn't the application's.
        public static let wrongPassword = Code("wrongPassword")
    }

    /// What kind of failure it is.
    public var code: Code
    /// What went wrong and what to do about it, in a sentence or two.
    public var message: String
    /// The underlying error, if there is one.
    public var cause: (any Error)?
    /// For ``Code/deregistered`` after the application was recreated: whether its creator provably had the former keys.
    ///
    /// `false` can mean that a user who had lost every key recreated the application. It can also mean an attack by the
    /// storage: ask the user before you give such an application a password. `nil` for every other error.
    public internal(set) var isSuccessorProven: Bool?

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

extension StoreSyncError: LocalizedError {
    /// The message, which `localizedDescription` and alerts show.
    public var errorDescription: String? { message }
}
