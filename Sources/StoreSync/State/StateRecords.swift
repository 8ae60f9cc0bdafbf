import RemoteStorage

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

/// What this device remembers of one local store of a document.
struct StoreRecord: Hashable, Sendable, Codable {
    /// The store's canonical path.
    var path: String
    /// What the file system knows the file by, so that it's found where it was moved to; `nil` if it isn't known.
    var file: FileIdentity?
    var document: DocumentKey
    /// The document's integrity key when the store was last pushed or pulled.
    var integrityKey: String
    /// Digest of the store as it was last pushed or pulled, in hexadecimal.
    var contentRoot: String?
    /// The upload that the store equals if it wasn't changed since; `nil` for a store that TICoreDataSync uploaded.
    var base: UploadName?
    /// What the store contains: its base, and what that includes.
    var contained: Set<UploadName> = []
    /// Whether it belongs to a document that isn't there any more and has to be replaced.
    var mustReplace = false
    /// What a pull is about to make of it.
    ///
    /// If the store is that, the pull was cut off after it had replaced the store.
    var pending: Pending?

    /// What a store becomes by a pull.
    struct Pending: Hashable, Sendable, Codable {
        var contentRoot: String
        var base: UploadName?
        var contained: Set<UploadName>
        var integrityKey: String
    }

    /// The record of the store whose content is `root`: what a pull that was cut off has made of it, if there was one.
    func settled(for root: String) -> StoreRecord {
        guard let pending else { return self }
        var settled = self
        settled.pending = nil
        if root == contentRoot { return settled }
        guard root == pending.contentRoot else {
            // The app has edited it since, before the replacement or after: it surely contains only what both contain.
            settled.contained.formIntersection(pending.contained)
            return settled
        }
        settled.contentRoot = root
        settled.base = pending.base
        settled.contained = pending.contained
        settled.integrityKey = pending.integrityKey
        settled.mustReplace = false
        return settled
    }

    init(path: String, document: DocumentKey, integrityKey: String) {
        self.path = path
        self.document = document
        self.integrityKey = integrityKey
    }
}

/// An upload of this device, noted before any of it is on the remote, and kept for as long as this device's memory: an upload
/// of its own that it doesn't know is the work of a copy of it.
struct UploadRecord: Hashable, Sendable, Codable {
    var document: DocumentKey
    var name: UploadName
    /// What is to be remembered of the store once the upload is published; `nil` once it is, or another push or pull of that
    /// store has succeeded.
    var store: StoreRecord?
    var isPublished = false
    /// Digest of the store that it publishes, in hexadecimal; `nil` until all its files are on the remote.
    ///
    /// A copy of this device may publish another content under the same name.
    var contentRoot: String?
    /// The tags of its files on the remote, by their names, where tags follow from what is in a file.
    var tags: [String: RemoteTag] = [:]

    init(document: DocumentKey, name: UploadName, store: StoreRecord) {
        self.document = document
        self.name = name
        self.store = store
    }
}
