/// What went wrong while a store was synchronized, and what to do about it.
///
/// ``message`` is written for the person in front of the device: it names what is wrong and the remedy. ``code`` is for
/// programs; its ``Code/description`` is the word that the `storesync` command prints as `error.code`.
public struct StoreSyncError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    ///
    /// The list may grow: handle the codes you know, show ``StoreSyncError/message`` for the rest.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case applicationChanged, applicationMissing, applicationIncomplete, busy, cannotWrite, clientNotFound
            case corrupt, deregistered
            case diverged, documentDeleted, documentMissing, documentNotFound, documentReplaced, encryptionDowngraded,
                encryptionMismatch
            case encryptionUndecided, invalidIdentifier, invalidMessage, invalidPassword, keychainLocked, localChanges
            case noUploadedStore, notEntitled, notExpected, orphan, passwordRequired, remoteUnauthorized
            case remoteUnavailable, rolledBack, storeChanged, storeNotFound
            case tampered, unrelatedStore, unsupportedFormat, unsupportedStorage, wrongPassword
        }

        private let name: Name

        /// The code's name, as scripts know it.
        public var description: String { name.rawValue }

        /// The application on the remote isn't the one any more about which something was decided.
        public static let applicationChanged = Code(name: .applicationChanged)
        /// The application isn't on the remote, and this command or device must not create it.
        public static let applicationMissing = Code(name: .applicationMissing)
        /// Part of the application is on the remote, its registration isn't: it is still arriving, or was damaged.
        public static let applicationIncomplete = Code(name: .applicationIncomplete)
        /// Somebody else works on the same store or document; try again.
        public static let busy = Code(name: .busy)
        /// A file could not be written, here or on the remote: permissions, no space, a wrong kind of file.
        public static let cannotWrite = Code(name: .cannotWrite)
        /// The application has no client of that identifier.
        public static let clientNotFound = Code(name: .clientNotFound)
        /// A file is not what was written.
        public static let corrupt = Code(name: .corrupt)
        /// This client was removed from the application, or the application was made anew; it must be set up again.
        public static let deregistered = Code(name: .deregistered)
        /// Several uploaded stores hold edits that none of the others holds.
        public static let diverged = Code(name: .diverged)
        /// The document was deleted.
        public static let documentDeleted = Code(name: .documentDeleted)
        /// The document's info is gone from the remote, and nothing authentic says that the document was deleted.
        public static let documentMissing = Code(name: .documentMissing)
        /// No document of that name is registered.
        public static let documentNotFound = Code(name: .documentNotFound)
        /// The document was deleted and made anew; the local store belongs to the former one.
        public static let documentReplaced = Code(name: .documentReplaced)
        /// The application was encrypted when this device last saw it, and isn't now.
        public static let encryptionDowngraded = Code(name: .encryptionDowngraded)
        /// The caller's decision on encryption isn't what the application has.
        public static let encryptionMismatch = Code(name: .encryptionMismatch)
        /// Nobody said whether to encrypt.
        public static let encryptionUndecided = Code(name: .encryptionUndecided)
        /// An identifier that can't be one path component on every storage.
        public static let invalidIdentifier = Code(name: .invalidIdentifier)
        /// A message that can't be read: what was to be its JSON isn't of its form.
        public static let invalidMessage = Code(name: .invalidMessage)
        /// What was given can't be a password.
        public static let invalidPassword = Code(name: .invalidPassword)
        /// This device's keychain doesn't open: its secret is missing, or isn't kept from others.
        public static let keychainLocked = Code(name: .keychainLocked)
        /// The local store was changed since it was last pushed or pulled; replacing it would lose that.
        public static let localChanges = Code(name: .localChanges)
        /// Nobody has uploaded a store of the document, or none has arrived whole.
        public static let noUploadedStore = Code(name: .noUploadedStore)
        /// An access group of a keychain isn't the caller's.
        public static let notEntitled = Code(name: .notEntitled)
        /// A setup was asked for something that it doesn't take in its present state.
        public static let notExpected = Code(name: .notExpected)
        /// A sealed file belongs to another epoch of the application: it's left over, or the application was made anew.
        public static let orphan = Code(name: .orphan)
        /// The application is encrypted, and this device has neither its keys nor a password.
        public static let passwordRequired = Code(name: .passwordRequired)
        /// The storage refuses the credentials.
        public static let remoteUnauthorized = Code(name: .remoteUnauthorized)
        /// The storage can't be reached or doesn't work.
        public static let remoteUnavailable = Code(name: .remoteUnavailable)
        /// The remote holds an older state than this device has seen.
        public static let rolledBack = Code(name: .rolledBack)
        /// The local store was written to while it was copied.
        public static let storeChanged = Code(name: .storeChanged)
        /// The local store doesn't exist or isn't a file that can be read.
        public static let storeNotFound = Code(name: .storeNotFound)
        /// A sealed file isn't what was sealed for its place: somebody or something changed, moved or exchanged it.
        public static let tampered = Code(name: .tampered)
        /// The local store descends from no upload of the document that this device knows.
        public static let unrelatedStore = Code(name: .unrelatedStore)
        /// A file was written by a program, or a version, that this one doesn't know.
        public static let unsupportedFormat = Code(name: .unsupportedFormat)
        /// The storage lacks a capability without which the operation isn't safe.
        public static let unsupportedStorage = Code(name: .unsupportedStorage)
        /// The password isn't the application's.
        public static let wrongPassword = Code(name: .wrongPassword)
    }

    /// What kind of failure it is.
    public var code: Code
    /// What went wrong and what to do about it, in a sentence or two.
    public var message: String
    /// The error underneath, where there is one.
    public var cause: (any Error)?
    /// Of ``Code/deregistered``, where the application was made anew: whether it's proven that somebody did it who had
    /// the former application's keys.
    ///
    /// `false` is what a person does who had lost every key, and what a storage does that plays tricks: ask before you
    /// give such an application a password. `nil` for every other error.
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
