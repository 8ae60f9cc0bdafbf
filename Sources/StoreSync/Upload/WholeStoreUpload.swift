public import Foundation
public import RemoteStorage

/// An uploaded store: the result of ``WholeStoreUploadOperation``.
public struct WholeStoreUpload: Sendable, Hashable {
    /// The client that uploaded it: a new one if another device was found to use this device's former identifier.
    public let client: RemoteIdentifier
    /// The store's generation in its document.
    public let generation: Int
    /// The store's size in bytes.
    public let bytes: Int64
    /// The size of its files on the remote, in bytes; for a delta, without the earlier uploads that it builds on.
    public let storedBytes: Int64
    /// Whether its files on the remote are sealed.
    public let isEncrypted: Bool
    /// Whether nothing was uploaded, since the store is the same as that generation.
    public internal(set) var isUnchanged: Bool
    /// Clients that have uploaded a store with edits that this one lacks; the user must resolve the divergence.
    public let divergedFrom: [RemoteIdentifier]
    /// The heads of the document that continue it, if the store is the same as an upload that isn't a head any more.
    let continuedBy: [UploadName]
    /// Warnings for the user, in full sentences.
    public internal(set) var warnings: [String]
}

/// A request to upload a store.
public struct WholeStoreUploadRequest: Sendable {
    /// The store, an SQLite database or any other file.
    public var url: URL
    /// Whether the store replaces every head of the document, even heads whose edits it lacks.
    ///
    /// Each head must be complete on the remote, so that the user can have inspected it. With ``isWhole``, damaged
    /// heads are given up too.
    public var resolvesDivergence: Bool
    /// Whether to upload a whole copy that depends on nothing on the remote, even if the store is unchanged.
    ///
    /// Uploads that this device knows and that are missing on the remote are given up.
    public var isWhole: Bool
    /// How hard the store is compressed.
    public var compression: StoreCompression
    /// The baseline that is uploaded in place of the store; `nil` for the store itself.
    var baseline: BaselineContent?

    /// Creates a request.
    public init(
        url: URL,
        resolvesDivergence: Bool = false,
        isWhole: Bool = false,
        compression: StoreCompression = .automatic
    ) {
        self.url = url
        self.resolvesDivergence = resolvesDivergence
        self.isWhole = isWhole
        self.compression = compression
    }
}

/// The content of a baseline: copies that belong together, of a store and of what other devices need of its replica.
struct BaselineContent: Sendable {
    var store: URL
    var checkpoint: URL
    var synchronized: SynchronizedContent
}
