public import Foundation
public import RemoteStorage

/// A store that was downloaded: what ``WholeStoreDownloadOperation`` results in.
public struct WholeStoreDownload: Sendable, Hashable {
    /// The client that downloaded it: this device.
    public let client: RemoteIdentifier
    /// The client whose store it is.
    public let from: RemoteIdentifier
    /// The store's generation in its document; 0 for one that TICoreDataSync wrote.
    public let generation: Int
    /// The store's size in bytes.
    public let bytes: Int64
    /// What it takes on the remote, in bytes.
    public let storedBytes: Int64
    /// Whether it's sealed there.
    public let isEncrypted: Bool
    /// Whether the local store was the same already.
    public let isUnchanged: Bool
    /// What people should know, in sentences.
    public let warnings: [String]
}

/// How a store is to be downloaded.
public struct WholeStoreDownloadRequest: Sendable {
    /// How the local store is replaced.
    public enum Replacement: Sendable, Hashable {
        /// By a file that takes its name. Nobody else may have the store open.
        case file
        /// By writing into it, in one transaction: for an SQLite store that others keep open.
        case transaction
    }

    /// An upload that is named, instead of the newest.
    public struct Upload: Sendable, Hashable, CustomStringConvertible {
        /// Whose it is.
        public var client: RemoteIdentifier
        /// Its generation; the newest of that client where this is `nil`.
        public var generation: Int?
        /// How its identifier, a UUID, begins: needed where a client has two uploads of one generation.
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

    /// Where the store goes.
    public var url: URL
    /// Which upload is taken; the newest where this is `nil`.
    ///
    /// One whose generation is named is taken although this device has seen a newer one.
    public var upload: Upload?
    /// Whether local changes that were never pushed may be lost.
    public var overwritesLocalChanges: Bool
    /// Whether a store older than one that this device has seen is taken.
    public var acceptsRollback: Bool
    /// How the local store is replaced.
    public var replacement: Replacement

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
