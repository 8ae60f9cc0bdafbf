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
    /// Clients whose newest store holds edits that this one doesn't: somebody has to choose.
    public let divergedFrom: [RemoteIdentifier]
    /// What people should know, in sentences.
    public let warnings: [String]
}
