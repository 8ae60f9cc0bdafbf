public import Foundation
public import RemoteStorage

/// The paths of an application's files on the remote.
///
///     <application>/
///       ReadMe.txt
///       ClientDevices/<client>/deviceInfo.plist
///       Documents/<document>/…                      DocumentHierarchy
///       Encryption/salt.ticdsync, test.ticdsync, successor-<epoch>.ticdsync
///       Encryption/password-<epoch>-<version>.ticdsync   while a client changes the password
///       Information/registration.plist
///       Information/DeletedDocuments/<document>.plist
///       Information/DeletedDocuments/<document>.<unique>/   a document while it's being removed
///       Information/DeletedClients/<client>-<remover>.plist, or TICoreDataSync's <client>.plist
///       Information/Keychain/<client>.ticdsync       in encrypted applications, once an item exists
///
/// The names and paths are TICoreDataSync's, except `registration.plist`, `Keychain`, the proof of a successor and the
/// claim to a password.
public struct ApplicationHierarchy: Sendable, Hashable {
    /// The application's identifier.
    public let application: RemoteIdentifier
    /// The application's directory: named like the application, except while it's being created.
    public let root: RemotePath

    /// Creates the hierarchy of an application at its regular path.
    public init(_ application: RemoteIdentifier) {
        self.application = application
        root = RemotePath.root.appending(application)
    }

    private init(_ application: RemoteIdentifier, root: RemotePath) {
        self.application = application
        self.root = root
    }

    /// The same hierarchy under a name that other clients ignore, at which a new application is prepared.
    func staged(as name: String) throws -> ApplicationHierarchy {
        ApplicationHierarchy(application, root: try RemotePath.root.appending(name))
    }

    /// Whether a path is in a staging directory, which no other client knows.
    static func isStaged(_ path: RemotePath) -> Bool { path.components.first?.hasPrefix(stagingName("")) == true }

    /// The name of a staging directory.
    static func stagingName(_ unique: String) -> String { ".registering-\(unique)" }

    /// The text that tells people what the directory is for.
    public var readMe: RemotePath { root.appending(literal: "ReadMe.txt") }
    /// One directory for each client.
    public var clientDevices: RemotePath { root.appending(literal: "ClientDevices") }
    /// One directory for each document.
    public var documents: RemotePath { root.appending(literal: "Documents") }
    /// Salt and password test of an encrypted application; empty otherwise.
    public var encryption: RemotePath { root.appending(literal: "Encryption") }
    /// What clients read when they register.
    public var information: RemotePath { root.appending(literal: "Information") }
    /// Notes on documents that were deleted.
    public var deletedDocuments: RemotePath { information.appending(literal: "DeletedDocuments") }
    /// Notes on clients that were removed from the application.
    public var deletedClients: RemotePath { information.appending(literal: "DeletedClients") }
    /// Format version, epoch and encryption.
    public var registration: RemotePath { information.appending(literal: "registration.plist") }
    /// The synchronizable items of each client's keychain; missing until an item exists.
    public var keychains: RemotePath { information.appending(literal: "Keychain") }
    /// The file that marks an encrypted application.
    public var salt: RemotePath { encryption.appending(literal: "salt.ticdsync") }
    /// The file that passwords are tested with.
    public var passwordTest: RemotePath { encryption.appending(literal: "test.ticdsync") }

    /// The proof that the creator of the application of this epoch had the former application's keys.
    public func successor(_ epoch: UUID) -> RemotePath { encryptionFile("\(Self.successorPrefix)\(epoch.uuidString)") }

    /// The claim of the client that may write this version of the key file.
    public func passwordClaim(_ version: UInt32, of epoch: UUID) -> RemotePath {
        encryptionFile("\(Self.passwordClaimPrefix)\(epoch.uuidString)-\(version)")
    }

    /// The version in the name of a claim to a password of this epoch; `nil` if the name has another form.
    static func passwordVersion(ofClaimNamed name: String, epoch: UUID) -> UInt32? {
        let prefix = "\(passwordClaimPrefix)\(epoch.uuidString)-"
        guard name.hasPrefix(prefix), name.hasSuffix(".ticdsync") else { return nil }
        return UInt32(name.dropFirst(prefix.count).dropLast(".ticdsync".count))
    }

    private static let passwordClaimPrefix = "password-"

    private func encryptionFile(_ name: String) -> RemotePath { encryption.appending(valid: "\(name).ticdsync") }

    /// The prefix of the name of every such proof.
    static let successorPrefix = "successor-"

    /// Every directory that always exists, parents before children.
    public var directories: [RemotePath] {
        [root, clientDevices, documents, encryption, information, deletedDocuments, deletedClients]
    }

    /// Whether an application whose root lacks some of its parts lacks them all.
    func isEmpty(_ missing: Set<RemotePath>) -> Bool { missing.isSuperset(of: directories.dropFirst() + [readMe]) }

    /// One client's directory.
    public func clientDirectory(_ client: RemoteIdentifier) -> RemotePath { clientDevices.appending(client) }

    /// What is known of one client.
    public func deviceInfo(_ client: RemoteIdentifier) -> RemotePath {
        clientDirectory(client).appending(literal: "deviceInfo.plist")
    }

    /// TICoreDataSync's note that a client was removed from the application.
    public func deletedClient(_ client: RemoteIdentifier) -> RemotePath { deletedClients.appending(tombstone: client) }

    /// The note that a document was deleted.
    public func deletedDocument(_ document: RemoteIdentifier) -> RemotePath {
        deletedDocuments.appending(tombstone: document)
    }

    /// The paths of a document that a device has moved out of the way to remove it.
    ///
    /// `unique` tells this removal from others, so that no other document ever has files at these paths.
    func documentAside(_ document: RemoteIdentifier, _ unique: UUID) -> DocumentHierarchy {
        let root = deletedDocuments.appending(document, extension: unique.uuidString)
        return DocumentHierarchy(document, root: root)
    }

    /// What tells a document's removal from others, in the name of the directory to which the document was moved; `nil` if
    /// the name has another form.
    static func unique(ofDirectoryNamed name: String, of document: RemoteIdentifier) -> UUID? {
        let prefix = "\(document)."
        return name.hasPrefix(prefix) ? UUID(uuidString: String(name.dropFirst(prefix.count))) : nil
    }

    /// The file with the synchronizable items of one client's keychain.
    public func keychain(_ client: RemoteIdentifier) -> RemotePath {
        keychains.appending(client, extension: Self.keychainExtension)
    }

    /// The client whose keychain file has that name; `nil` if the name has another form.
    static func client(ofKeychainNamed name: String) -> RemoteIdentifier? {
        RemoteIdentifier(ofFileNamed: name, extension: keychainExtension)
    }

    private static let keychainExtension = "ticdsync"

    /// The paths of a document's files.
    public func document(_ document: RemoteIdentifier) -> DocumentHierarchy {
        DocumentHierarchy(document, root: documents.appending(document))
    }
}

extension RemoteIdentifier {
    /// Reads the identifier that a file is named after; `nil` if the name has another form.
    init?(ofFileNamed name: String, extension pathExtension: String) {
        guard name.hasSuffix(".\(pathExtension)") else { return nil }
        try? self.init(String(name.dropLast(pathExtension.count + 1)))
    }
}

extension RemotePath {
    /// The path of a name that this package has made; traps if it isn't a path component.
    func appending(valid name: String) -> RemotePath {
        guard let path = try? appending(name) else { preconditionFailure("\(name) isn't a path component") }
        return path
    }

    /// The path of a file that is named after an identifier.
    func appending(_ identifier: RemoteIdentifier, extension pathExtension: String) -> RemotePath {
        appending(valid: "\(identifier).\(pathExtension)")
    }

    func appending(tombstone identifier: RemoteIdentifier) -> RemotePath {
        appending(identifier, extension: "plist")
    }
}
