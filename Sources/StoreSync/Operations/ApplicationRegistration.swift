public import RemoteStorage
public import SyncCryptography

/// An application that this device is registered with: what ``ApplicationRegistrationOperation`` results in.
public struct ApplicationRegistration: Sendable, Hashable {
    /// The application.
    public let application: RemoteIdentifier
    /// This device, as the application knows it.
    public let client: RemoteIdentifier
    /// What people call this device.
    public let clientDescription: String
    /// Whether this registration made the application.
    public let didCreateApplication: Bool
    /// Whether a client may have published items of its keychain.
    let hasKeychains: Bool
    let seal: ApplicationSeal
    /// What people should know, in sentences.
    public let warnings: [String]

    /// Whether files of the application are sealed.
    public var isEncrypted: Bool { seal.isEncrypted }

    var hierarchy: ApplicationHierarchy { ApplicationHierarchy(application) }
}

/// What is to be registered.
public struct ApplicationRegistrationRequest: Sendable {
    /// The application's identifier.
    public var application: RemoteIdentifier
    /// What people call this device.
    public var clientDescription: String
    /// Anything to be saved with the client when it's saved first, and returned with lists of clients.
    public var userInfo: [String: PropertyListValue]
    /// The text that tells people who find the directory what it's for.
    public var readMe: String
    /// Whether the application is made if it isn't there.
    public var mayCreateApplication: Bool
    /// Whether only an encrypted application will do.
    public var requiresEncryption: Bool
    /// Whether this device is set up anew, as another client, after it was deregistered.
    public var startsAnew: Bool
    /// What hashing the password of a new application is to cost.
    public var passwordParameters: PasswordParameters
    /// Whether a ``PasscodeSetup`` asks: its passcode is tried also where this device has the keys, and what was cut off while
    /// an application was made anew is finished or undone.
    var isSetup = false
    /// The application in whose place the new one is made; `nil` where it isn't.
    var replaces: ReplacedApplication?

    /// Creates a request.
    public init(
        application: RemoteIdentifier,
        clientDescription: String,
        userInfo: [String: PropertyListValue] = [:],
        readMe: String = ApplicationRegistrationRequest.defaultReadMe,
        mayCreateApplication: Bool = true,
        requiresEncryption: Bool = false,
        startsAnew: Bool = false,
        passwordParameters: PasswordParameters = .moderate
    ) {
        self.application = application
        self.clientDescription = clientDescription
        self.userInfo = userInfo
        self.readMe = readMe
        self.mayCreateApplication = mayCreateApplication
        self.requiresEncryption = requiresEncryption
        self.startsAnew = startsAnew
        self.passwordParameters = passwordParameters
    }

    /// What `ReadMe.txt` says unless the app has its own words.
    public static let defaultReadMe = """
        An app keeps its documents in step between several devices through this directory.

        Please don't change, move or rename anything in here: devices that use it could lose
        data, or find nothing to synchronize with. To stop synchronizing, use the app.

        """
}

/// What whoever registers is asked about encryption.
public enum EncryptionQuestion: Sendable, Hashable {
    /// The application doesn't exist yet: shall what it holds be encrypted, and by which password?
    case newApplication
    /// The application exists and is not encrypted: is that all right for this device?
    case joiningUnencrypted
    /// The application exists and is encrypted: what is its password? Asked again for as long as the answer is wrong.
    case joiningEncrypted(passwordWasWrong: Bool)
}

/// The answer to an ``EncryptionQuestion``.
public enum EncryptionDecision: Sendable, Equatable {
    /// Whoever has the storage may read everything.
    case unencrypted
    /// Files are sealed, by a key that this password opens.
    case encrypted(Password)
}
