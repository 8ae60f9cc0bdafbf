/// What this device's memory of an application is kept under.
public struct ApplicationKey: Hashable, Sendable, Codable {
    /// The identity of the backend.
    var remote: String
    /// The application's identifier.
    var application: String
}

/// What this device's memory of a document is kept under.
struct DocumentKey: Hashable, Sendable, Codable {
    var application: ApplicationKey
    var document: String
}

/// What a device knows of an application and doesn't let the storage change.
struct ApplicationPin: Hashable, Sendable, Codable {
    /// The suite that seals the application's files; `nil` if it's unencrypted.
    var encryption: String?
    /// The application's epoch; `nil` for a tree of TICoreDataSync.
    var epoch: String?
    /// How many passwords an encrypted application has had: a lower number is an older key file put back.
    var passwordVersion: UInt32?

    var isEncrypted: Bool { encryption != nil }
}

/// The upload that a local store equals, as far as it wasn't changed since.
struct StoreBase: Hashable, Sendable, Codable {
    var client: String
    var upload: UploadReference
}

/// What this device remembers of one local store of a document.
struct StoreRecord: Hashable, Sendable, Codable {
    /// The store's canonical path.
    var path: String
    var document: DocumentKey
    /// The document's integrity key when the store was last pushed or pulled.
    var integrityKey: String
    /// Digest of the store as it was last pushed or pulled, in hexadecimal.
    var contentRoot: String?
    /// What the store contains.
    var vector = GenerationVector()
    /// What it equals if it wasn't changed since.
    var base: StoreBase?
    /// Whether it belongs to a document that isn't there any more and has to be replaced.
    var mustReplace = false
    /// What a pull is about to make of it.
    ///
    /// If the store is that, the pull was cut off after it had replaced the store.
    var pending: Pending?

    /// What a store becomes by a pull.
    struct Pending: Hashable, Sendable, Codable {
        var contentRoot: String
        var vector: GenerationVector
        var base: StoreBase?
        var integrityKey: String
    }

    /// The record of the store as `root` shows it: of the pull that was cut off, if that is what it is.
    func settled(for root: String) -> StoreRecord {
        guard let pending, pending.contentRoot == root, contentRoot != root else { return self }
        var settled = StoreRecord(path: path, document: document, integrityKey: pending.integrityKey)
        settled.contentRoot = root
        settled.vector = pending.vector
        settled.base = pending.base
        return settled
    }

    init(path: String, document: DocumentKey, integrityKey: String) {
        self.path = path
        self.document = document
        self.integrityKey = integrityKey
    }
}

/// An upload of this device, noted before any of it is on the remote.
struct UploadRecord: Hashable, Sendable, Codable {
    var document: DocumentKey
    var client: String
    var reference: UploadReference
    /// What is to be remembered of the store once the upload is published.
    var store: StoreRecord
    var isPublished = false

    init(document: DocumentKey, client: String, reference: UploadReference, store: StoreRecord) {
        self.document = document
        self.client = client
        self.reference = reference
        self.store = store
    }
}
