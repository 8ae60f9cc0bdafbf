public import Foundation
public import RemoteStorage

/// A store that was uploaded: what ``WholeStoreUploadOperation`` results in.
public struct WholeStoreUpload: Sendable, Hashable {
    /// The client as which it was uploaded: another one than before if this device's identity was found to live twice.
    public let client: RemoteIdentifier
    /// The store's generation in its document.
    public let generation: Int
    /// The store's size in bytes.
    public let bytes: Int64
    /// What it takes on the remote, in bytes; without the former uploads that it builds on, where only changes were pushed.
    public let storedBytes: Int64
    /// Whether it's sealed there.
    public let isEncrypted: Bool
    /// Whether there was nothing to upload, since the store is the same as that generation.
    public let isUnchanged: Bool
    /// Clients that have uploaded a store with edits that this one doesn't have: the user has to settle that.
    public let divergedFrom: [RemoteIdentifier]
    /// What people should know, in sentences.
    public let warnings: [String]
}

/// How a store is to be uploaded.
public struct WholeStoreUploadRequest: Sendable {
    /// The store, an SQLite database or any other file.
    public var url: URL
    /// Whether the store takes the place of every head of the document, also of those whose edits it doesn't have.
    ///
    /// Each must be whole on the remote, so that the user can have looked at it; with ``isWhole`` a damaged one is given up, too.
    public var resolvesDivergence: Bool
    /// Whether a whole copy is uploaded that relies on nothing that is on the remote, even if the store is unchanged.
    ///
    /// Uploads that this device knows and that are gone from the remote are given up.
    public var isWhole: Bool

    /// Creates a request.
    public init(url: URL, resolvesDivergence: Bool = false, isWhole: Bool = false) {
        self.url = url
        self.resolvesDivergence = resolvesDivergence
        self.isWhole = isWhole
    }
}
