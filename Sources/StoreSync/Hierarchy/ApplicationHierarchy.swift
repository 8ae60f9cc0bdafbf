public import Foundation
public import RemoteStorage

/// Where everything of an application is on the remote.
///
///     <application>/
///       ReadMe.txt
///       ClientDevices/<client>/deviceInfo.plist
///       Documents/<document>/…                      DocumentHierarchy
///       Encryption/salt.ticdsync, test.ticdsync, successor-<epoch>.ticdsync
///       Information/registration.plist
///       Information/DeletedDocuments/<document>.plist
///       Information/DeletedClients/<client>.plist
///       Information/Keychain/<client>.ticdsync       of encrypted applications, once there is such an item
///
/// Names and places are TICoreDataSync's, but for `registration.plist`, `Keychain` and the proof of a successor.
public struct ApplicationHierarchy: Sendable, Hashable {
    /// The application's identifier.
    public let application: RemoteIdentifier
    /// The application's directory: named as the application, except while it is being made.
    public let root: RemotePath

    /// Creates the hierarchy of an application in its place.
    public init(_ application: RemoteIdentifier) {
        self.application = application
        root = RemotePath.root.appending(application)
    }

    private init(_ application: RemoteIdentifier, root: RemotePath) {
        self.application = application
        self.root = root
    }

    /// The same hierarchy under a name that nobody looks at, where a new application is put together.
    ///
    /// - Parameter name: The staging directory's name, as ``stagingName(_:)`` makes it.
    /// - Returns: The hierarchy below that name.
    /// - Throws: ``RemoteError`` if the name isn't one path component.
    func staged(as name: String) throws -> ApplicationHierarchy {
        ApplicationHierarchy(application, root: try RemotePath.root.appending(name))
    }

    /// Whether a path is in a staging directory, which nobody else knows.
    static func isStaged(_ path: RemotePath) -> Bool { path.components.first?.hasPrefix(stagingName("")) == true }

    /// The name of a staging directory.
    static func stagingName(_ unique: String) -> String { ".registering-\(unique)" }

    /// What the directory is for, in words.
    public var readMe: RemotePath { root.appending(literal: "ReadMe.txt") }
    /// One directory for each client.
    public var clientDevices: RemotePath { root.appending(literal: "ClientDevices") }
    /// One directory for each document.
    public var documents: RemotePath { root.appending(literal: "Documents") }
    /// Salt and password test of an encrypted application; empty otherwise.
    public var encryption: RemotePath { root.appending(literal: "Encryption") }
    /// What clients are told when they register.
    public var information: RemotePath { root.appending(literal: "Information") }
    /// Notes on documents that were deleted.
    public var deletedDocuments: RemotePath { information.appending(literal: "DeletedDocuments") }
    /// Notes on clients that were removed from the application.
    public var deletedClients: RemotePath { information.appending(literal: "DeletedClients") }
    /// Format version, epoch and encryption.
    public var registration: RemotePath { information.appending(literal: "registration.plist") }
    /// The synchronizable items of each client's keychain, once there is one.
    public var keychains: RemotePath { information.appending(literal: "Keychain") }
    /// The mark of an encrypted application.
    public var salt: RemotePath { encryption.appending(literal: "salt.ticdsync") }
    /// What passwords are tried on.
    public var passwordTest: RemotePath { encryption.appending(literal: "test.ticdsync") }

    /// The proof that the application of this epoch was made by somebody who had the former one's keys.
    public func successor(_ epoch: UUID) -> RemotePath {
        guard let name = try? RemoteIdentifier("\(Self.successorPrefix)\(epoch.uuidString)") else {
            preconditionFailure("an epoch is part of an identifier")
        }
        return encryption.appending(name, extension: "ticdsync")
    }

    /// How the name of every such proof begins.
    static let successorPrefix = "successor-"

    /// Every directory that always exists, parents before children.
    public var directories: [RemotePath] {
        [root, clientDevices, documents, encryption, information, deletedDocuments, deletedClients]
    }

    /// One client's directory.
    public func clientDirectory(_ client: RemoteIdentifier) -> RemotePath { clientDevices.appending(client) }

    /// What is known of one client.
    public func deviceInfo(_ client: RemoteIdentifier) -> RemotePath {
        clientDirectory(client).appending(literal: "deviceInfo.plist")
    }

    /// The note that a client was removed from the application.
    public func deletedClient(_ client: RemoteIdentifier) -> RemotePath { deletedClients.appending(tombstone: client) }

    /// The note that a document was deleted.
    public func deletedDocument(_ document: RemoteIdentifier) -> RemotePath {
        deletedDocuments.appending(tombstone: document)
    }

    /// The synchronizable items as one client knows them.
    public func keychain(_ client: RemoteIdentifier) -> RemotePath {
        keychains.appending(client, extension: Self.keychainExtension)
    }

    /// Whose keychain file has that name; `nil` if it's none.
    static func client(ofKeychainNamed name: String) -> RemoteIdentifier? {
        RemoteIdentifier(ofFileNamed: name, extension: keychainExtension)
    }

    private static let keychainExtension = "ticdsync"

    /// Where everything of a document is.
    public func document(_ document: RemoteIdentifier) -> DocumentHierarchy {
        DocumentHierarchy(document, root: documents.appending(document))
    }
}

extension RemoteIdentifier {
    /// The identifier that a file is named after; `nil` if it isn't.
    init?(ofFileNamed name: String, extension pathExtension: String) {
        guard name.hasSuffix(".\(pathExtension)") else { return nil }
        try? self.init(String(name.dropLast(pathExtension.count + 1)))
    }
}

extension RemotePath {
    /// The path of a file that is named after an identifier.
    func appending(_ identifier: RemoteIdentifier, extension pathExtension: String) -> RemotePath {
        // An identifier has at most 128 bytes, so with any extension of ours it's still a component.
        guard let path = try? appending("\(identifier).\(pathExtension)") else {
            preconditionFailure("\(identifier).\(pathExtension) isn't a path component")
        }
        return path
    }

    func appending(tombstone identifier: RemoteIdentifier) -> RemotePath {
        appending(identifier, extension: "plist")
    }
}
