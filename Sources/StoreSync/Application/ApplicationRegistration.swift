import Foundation
public import RemoteStorage
public import SyncCryptography

/// An application that this device is registered with: the result of ``ApplicationRegistrationOperation``.
public struct ApplicationRegistration: Sendable, Hashable {
    /// The application.
    public let application: RemoteIdentifier
    /// This device, as the application knows it.
    public let client: RemoteIdentifier
    /// The human-readable description of this device.
    public let clientDescription: String
    /// Whether this registration created the application.
    public let didCreateApplication: Bool
    /// Whether a client may have published items of its keychain.
    let hasKeychains: Bool
    let seal: ApplicationSeal
    /// Warnings for the user, in full sentences.
    public let warnings: [String]

    /// Whether files of the application are sealed.
    public var isEncrypted: Bool { seal.isEncrypted }

    var hierarchy: ApplicationHierarchy { ApplicationHierarchy(application) }
}

/// A request to register an application.
public struct ApplicationRegistrationRequest: Sendable {
    /// The application's identifier.
    public var application: RemoteIdentifier
    /// The human-readable description of this device.
    public var clientDescription: String
    /// Any values that are saved with a new client, and that lists of clients return; at most 1 MiB as a property list.
    public var userInfo: [String: PropertyListValue]
    /// The text that tells people who find the directory what it's for.
    public var readMe: String
    /// Whether the application is created if it doesn't exist.
    public var mayCreateApplication: Bool
    /// Whether only an encrypted application is acceptable.
    public var requiresEncryption: Bool
    /// Whether this device is set up again, as another client, after it was deregistered.
    ///
    /// A device that is still registered stays the client that it is, with a warning.
    public var registersAgain: Bool
    /// The cost of hashing a password that this device sets.
    ///
    /// If it's `nil`, the password of a new application costs ``/SyncCryptography/PasswordParameters/moderate``, and a changed
    /// password costs what the former one did. Less than ``/SyncCryptography/PasswordParameters/interactive`` is refused.
    public var passwordParameters: PasswordParameters?
    /// The store that doesn't exist, and for which nothing is created therefore; errors name it.
    var missingStore: URL?
    /// Whether a ``PasscodeSetup`` makes the request.
    ///
    /// Its passcode is tried even if this device has the keys, and interrupted replacements of an application are
    /// finished or undone.
    var isSetup = false
    /// The application that the new one replaces, or `nil` if there is none.
    var replaces: ReplacedApplication?

    /// Creates a request.
    public init(
        application: RemoteIdentifier,
        clientDescription: String,
        userInfo: [String: PropertyListValue] = [:],
        readMe: String = ApplicationRegistrationRequest.defaultReadMe,
        mayCreateApplication: Bool = true,
        requiresEncryption: Bool = false,
        registersAgain: Bool = false,
        passwordParameters: PasswordParameters? = nil
    ) {
        self.application = application
        self.clientDescription = clientDescription
        self.userInfo = userInfo
        self.readMe = readMe
        self.mayCreateApplication = mayCreateApplication
        self.requiresEncryption = requiresEncryption
        self.registersAgain = registersAgain
        self.passwordParameters = passwordParameters
    }

    /// The text of `ReadMe.txt`, unless the app provides its own.
    public static let defaultReadMe = """
        An app keeps its documents in step between several devices through this directory.

        Please don't change, move or rename anything in here: devices that use it could lose
        data, or find nothing to synchronize with. To stop synchronizing, use the app.

        """
}

/// A question about encryption that a registration asks its delegate.
public enum EncryptionQuestion: Sendable, Hashable {
    /// The application doesn't exist yet: should it be encrypted, and with which password?
    case newApplication
    /// The application exists and is not encrypted: may this device join it?
    case joiningUnencrypted
    /// The application exists and is encrypted: what is its password?
    ///
    /// Asked again for as long as the answer is wrong.
    case joiningEncrypted(passwordWasWrong: Bool)
}

/// The answer to an ``EncryptionQuestion``.
public enum EncryptionDecision: Sendable, Equatable {
    /// Files aren't sealed, so all who have access to the storage can read them.
    case unencrypted
    /// Files are sealed with a key that this password opens.
    case encrypted(Password)
}
