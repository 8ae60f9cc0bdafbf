public import Foundation
public import RemoteStorage

/// A downloaded store: the result of ``WholeStoreDownloadOperation``.
public struct WholeStoreDownload: Sendable, Hashable {
    /// The client that downloaded it: this device.
    public let client: RemoteIdentifier
    /// The client whose store it is.
    public let from: RemoteIdentifier
    /// The store's generation in its document; 0 for a store that TICoreDataSync wrote.
    public let generation: Int
    /// The store's size in bytes.
    public let bytes: Int64
    /// The size of its files on the remote, in bytes.
    public let storedBytes: Int64
    /// Whether its files on the remote are sealed.
    public let isEncrypted: Bool
    /// Whether the local store was already identical.
    public let isUnchanged: Bool
    /// Warnings for the user, in full sentences.
    public let warnings: [String]
}

/// A request to download a store.
public struct WholeStoreDownloadRequest: Sendable {
    /// How the local store is replaced.
    public enum Replacement: Sendable, Hashable {
        /// By a file that takes its name.
        ///
        /// No other program may have the store open.
        case file
        /// By writing into it in one transaction: for an SQLite store that other programs keep open.
        ///
        /// In WAL mode the store must have the page size of the downloaded one.
        case transaction
    }

    /// The upload to download instead of the newest.
    public struct Upload: Sendable, Hashable, CustomStringConvertible {
        /// The client that uploaded it.
        public var client: RemoteIdentifier
        /// Its generation, or the client's newest if this is `nil`.
        public var generation: Int?
        /// The beginning of its identifier, a UUID: needed if a client has two uploads of one generation.
        public var identifier: String

        /// Names an upload.
        public init(of client: RemoteIdentifier, generation: Int? = nil, identifier: String = "") {
            self.client = client
            self.generation = generation
            self.identifier = identifier
        }

        /// Its generation and client.
        public var description: String {
            generation.map { "Generation \($0) of client \(client)" } ?? "The newest upload of client \(client)"
        }

        func matches(_ name: UploadName) -> Bool {
            name.client == client && generation ?? name.generation == name.generation
                && name.upload.hasPrefix(identifier.uppercased())
        }
    }

    /// The store's file on this device.
    public var url: URL
    /// The upload to download, or the newest if this is `nil`.
    ///
    /// An upload with a named generation is downloaded even if this device has seen a newer one.
    public var upload: Upload?
    /// Whether local changes that were never pushed may be lost, and a store of a document that was created again.
    public var overwritesLocalChanges: Bool
    /// Whether a store is accepted although this device has seen a newer one.
    public var acceptsRollback: Bool
    /// How the local store is replaced.
    public var replacement: Replacement
    /// Whether the store is a baseline, with which this device begins to merge records.
    var isBaseline = false

    /// Creates a request.
    public init(
        url: URL,
        upload: Upload? = nil,
        overwritesLocalChanges: Bool = false,
        acceptsRollback: Bool = false,
        replacement: Replacement = .file
    ) {
        self.url = url
        self.upload = upload
        self.overwritesLocalChanges = overwritesLocalChanges
        self.acceptsRollback = acceptsRollback
        self.replacement = replacement
    }
}
