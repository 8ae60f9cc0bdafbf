import ByteCoding
import ContentDigests
import DatabaseSupport
import RemoteStorage
import SyncCryptography

/// The key of an application in this device's memory.
public struct ApplicationKey: Hashable, Sendable, Codable {
    /// The identity of the backend.
    var remote: String
    /// The application's identifier.
    var application: String
}

extension ApplicationKey {
    init(_ backend: any RemoteBackend, _ application: RemoteIdentifier) {
        self.init(remote: backend.identity, application: application.rawValue)
    }
}

/// The key of a document in this device's memory.
struct DocumentKey: Hashable, Sendable, Codable {
    var application: ApplicationKey
    var document: String

    /// The name of a file that belongs to the document, and to `other` if there is such a thing.
    ///
    /// Identities and paths hold characters that names can't, so the name is a digest of everything.
    func fileName(_ other: String...) -> String {
        let parts = [application.remote, application.application, document] + other
        return ContentRoot.of(parts.joined(separator: "\0").utf8).description
    }
}

/// What a device knows of an application and doesn't let the storage change.
struct ApplicationPin: Hashable, Sendable, Codable {
    /// The suite that seals the application's files; `nil` if it's unencrypted.
    var encryption: String?
    /// The application's epoch; `nil` for a tree of TICoreDataSync.
    var epoch: String?
    /// How many passwords an encrypted application has had; a lower number means that an older key file was restored.
    var passwordVersion: UInt32?
    /// Digest of the key file with that number: of two devices that change the password at once, one overwrites the other's.
    var passwordDigest: String?

    var isEncrypted: Bool { encryption != nil }
}

extension ApplicationPin {
    init(encryption: String?, epoch: String?, _ keyFile: KeyFile?) {
        self.init(encryption: encryption, epoch: epoch)
        keyFile.map { note($0) }
    }

    /// Whether the key file differs from the last that this device has seen, although both have the same number.
    func contradicts(_ keyFile: KeyFile) -> Bool {
        passwordVersion == keyFile.passwordVersion && passwordDigest.map { $0 != keyFile.digest } ?? false
    }

    /// Remembers a key file of this epoch.
    mutating func note(_ keyFile: KeyFile) {
        (passwordVersion, passwordDigest) = (keyFile.passwordVersion, keyFile.digest)
    }
}

extension KeyFile {
    fileprivate var digest: String { Blake2b.digest(of: bytes).hexadecimal }
}

/// What this device remembers of one local store of a document.
struct StoreRecord: Hashable, Sendable, Codable {
    /// The store's canonical path.
    var path: LocalPath
    /// The file's identity in the file system, by which it's found after a move; `nil` if unknown.
    ///
    /// While a pull is pending, it's that of the file that the pull replaces, unless the store was moved meanwhile.
    var file: FileIdentity?
    var document: DocumentKey
    /// The document's integrity key when the store was last pushed or pulled.
    var integrityKey: String
    /// Digest of the store as it was last pushed or pulled, in hexadecimal.
    var contentRoot: String?
    /// The status of a database's files when it had that content; `nil` if it must be read to know whether it has it.
    var status: StoreStatus?
    /// The upload that the store equals if it wasn't changed since; `nil` for a store that TICoreDataSync uploaded.
    var base: UploadName?
    /// The uploads that the store contains: its base, and the uploads that the base includes.
    var contained: Set<UploadName> = []
    /// Whether the store has to be replaced: its document was replaced, or this client was removed from it.
    var mustReplace = false
    /// The content that a pull is about to give to the store.
    ///
    /// If the store has it, the pull was interrupted after it had replaced the store.
    var pending: Pending?

    /// The state of a store after a pull.
    struct Pending: Hashable, Sendable, Codable {
        var contentRoot: String
        var base: UploadName?
        var contained: Set<UploadName>
        var integrityKey: String
        /// The identity of the downloaded file, which it keeps at the store's path; `nil` if it's unknown, or if its content is
        /// written into the store.
        var file: FileIdentity?
    }

    /// Whether a file is this store: the recorded one, or the one with which a pending pull replaces it.
    ///
    /// Without a time of birth, another file may have the downloaded file's number.
    func isStore(_ file: FileIdentity) -> Bool {
        self.file == file || file.birth != 0 && pending?.file == file
    }

    /// Whether the pending pull has replaced the store, which has the content `root` now; `nil` if nothing tells that.
    ///
    /// The app may have edited the store since. Without a time of birth, another file may have a file's number.
    func isReplaced(having root: String, _ file: FileIdentity?) -> Bool? {
        guard let pending else { return false }
        if root == pending.contentRoot { return true }
        if let file, file.birth != 0, let downloaded = pending.file {
            if file == downloaded { return true }
            if file == self.file { return false }
        }
        return root == contentRoot ? false : nil
    }

    /// The record of the store with the content `root`, after an interrupted pull if there was one.
    func settled(for root: String) -> StoreRecord {
        guard let pending else { return self }
        var settled = self
        settled.pending = nil
        if root == contentRoot { return settled }
        guard root == pending.contentRoot else {
            // The app has edited the store, before or after the replacement. Only the uploads that both contain are
            // certain.
            settled.contained.formIntersection(pending.contained)
            return settled
        }
        (settled.contentRoot, settled.status) = (root, nil)
        settled.base = pending.base
        settled.contained = pending.contained
        settled.integrityKey = pending.integrityKey
        settled.mustReplace = false
        return settled
    }
}

/// An upload of this device, remembered before any of its files is on the remote.
///
/// The record is kept for as long as this device's memory: an upload of this client without a record comes from a copy
/// of the device.
struct UploadRecord: Hashable, Sendable, Codable {
    var document: DocumentKey
    var name: UploadName
    /// The store's record for the time after the upload is published.
    ///
    /// `nil` once the upload is published, or another push or pull of that store has succeeded.
    var store: StoreRecord?
    var isPublished = false
    /// Whether the work after the publication isn't done: fixed names may be outdated, and former uploads still there.
    ///
    /// `nil` if it's done.
    var isIncomplete: Bool?
    /// Digest of the published store, in hexadecimal; `nil` until all files of the upload are on the remote.
    ///
    /// A copy of this device may publish other content under the same name.
    var contentRoot: String?
    /// The tags of its files on the remote, by file name, if another tag means another content there.
    var tags: [String: RemoteTag] = [:]
}
