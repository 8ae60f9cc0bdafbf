public import Foundation
public import RemoteStorage
public import SyncCryptography

/// The state of an application on the remote: the result of ``StatusOperation``.
public struct ApplicationStatus: Sendable, Hashable {
    /// A registered client.
    public struct Client: Sendable, Hashable {
        /// The client's identifier.
        public let client: RemoteIdentifier
        /// The human-readable description of the device.
        public let description: String
        /// The values that were saved with it.
        public let userInfo: [String: PropertyListValue]
        /// The documents it's registered with.
        public let documents: [RemoteIdentifier]
        /// When it last pushed, pulled or synchronized one of them, by its own clock; `nil` if that isn't known.
        ///
        /// A device that synchronizes records notes the time at most every half hour.
        public let lastSync: Date?
    }

    /// A registered document.
    public struct Document: Sendable, Hashable {
        /// The document's identifier.
        public let document: RemoteIdentifier
        /// The human-readable description of the document.
        public let description: String
        /// The values that were saved with it.
        public let userInfo: [String: PropertyListValue]
        /// The newest store of each client, and its other heads if copies of its store have diverged.
        public let stores: [Store]
        /// When each client last pushed, pulled or synchronized it, by the client's clock, as far as that is known.
        ///
        /// A device that synchronizes records notes the time at most every half hour.
        public internal(set) var lastSyncs: [RemoteIdentifier: Date] = [:]
        /// The clients that synchronize it record by record; empty if none does.
        public internal(set) var synchronizing: [SynchronizingClient] = []
    }

    /// An uploaded store.
    public struct Store: Sendable, Hashable {
        /// The client that uploaded it.
        public let client: RemoteIdentifier
        /// Its generation; 0 for a store that TICoreDataSync wrote.
        public let generation: Int
        /// Its size in bytes.
        public let bytes: Int64
        /// When it was uploaded, by the uploader's clock.
        public let modified: Date
    }

    /// How an application is encrypted.
    public struct Encryption: Sendable, Hashable {
        /// The suite that seals its files.
        public let suite: String
        /// The cost of hashing its password: Argon2id's passes and memory.
        public let passwordParameters: PasswordParameters
        /// How many passwords it has had.
        public let passwordVersion: Int
        /// Distinguishes it from its successor or predecessor with the same name.
        public let epoch: String
        /// Whether this device keeps its keys, and so needs no password.
        public let hasKeys: Bool
    }

    /// A file that is missing or can't be read, whose content would be in the lists below.
    public struct Unreadable: Sendable, Hashable {
        /// Its path on the remote.
        public let path: String
        /// The kind of failure.
        public let code: StoreSyncError.Code
        /// What is wrong and what to do about it.
        public let message: String

        init(_ error: StoreSyncError, at path: RemotePath) {
            self.path = "\(path)"
            code = error.code
            message = error.message
        }
    }

    /// The application.
    public let application: RemoteIdentifier
    /// This device's client identifier, if it has one.
    public let client: String?
    /// How files are sealed; `nil` if they aren't.
    public let encryption: Encryption?
    /// Whether files are sealed.
    public var isEncrypted: Bool { encryption != nil }
    /// The registered clients.
    public let clients: [Client]
    /// The registered documents.
    public let documents: [Document]
    /// The files that are missing or can't be read: they are still arriving, or damaged.
    public let unreadable: [Unreadable]
}

extension ApplicationStatus.Store {
    init(_ manifest: StoreManifest) {
        self.init(
            client: manifest.name.client,
            generation: manifest.name.generation,
            bytes: manifest[.store]?.size ?? 0,
            modified: manifest.created
        )
    }
}
