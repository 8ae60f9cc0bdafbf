import ContentDigests
import Foundation
import RemoteStorage
import SyncCryptography

/// A document, distinguished from former and later documents of the same name.
///
/// Files inside a document are sealed for this identity, so leftovers of a deleted document don't open in its
/// successor. The document's info and the file of its integrity key are not: readers distinguish the two documents by
/// them.
struct DocumentIdentity: Sendable, Hashable {
    let document: RemoteIdentifier
    let integrityKey: String
}

/// Seals and opens an application's files, or leaves them unchanged if the application is unencrypted.
struct ApplicationSeal: Sendable, Hashable {
    let application: RemoteIdentifier
    /// `nil` if the application is unencrypted.
    let key: EpochKey?

    /// The role of a file, to which its seal is bound: a file that the storage exchanged for another doesn't open.
    enum Role: Sendable, Hashable {
        case deviceInfo(RemoteIdentifier)
        case documentInfo(RemoteIdentifier)
        case integrityKey(String, of: RemoteIdentifier)
        /// The note that a document was deleted.
        case deletedDocument(RemoteIdentifier)
        /// The note that a client was removed from the application.
        case removedClient(ClientNoteName)
        /// The note that a client was removed from a document.
        case deletedClient(ClientNoteName, of: DocumentIdentity)
        /// When a client last pushed or pulled.
        case recentSync(RemoteIdentifier, of: DocumentIdentity)
        /// Where the change sets of a document begin.
        case syncOrigin(DocumentIdentity)
        /// What a client publishes of its change sets since an origin.
        case syncHead(SyncHeadName, since: UUID, of: DocumentIdentity)
        /// A client's older change sets since an origin.
        case syncSegment(SyncSegment, by: RemoteIdentifier, since: UUID, of: DocumentIdentity)
        case manifest(UploadName, of: DocumentIdentity)
        case file(WholeStoreFile, UploadName, of: DocumentIdentity)
        /// A file of the app itself, which is none of this module's.
        case appFile(String, of: DocumentIdentity?)
        /// A store as a delta to these uploads of the same client, the whole copy first.
        case delta(UploadName, to: [UploadReference], of: DocumentIdentity)
    }

    /// The maximum plaintext size, in bytes, of a file that is read as a whole.
    private static let maximumBytes = 4 << 20

    static func == (left: Self, right: Self) -> Bool { left.application == right.application && left.key == right.key }
    func hash(into hasher: inout Hasher) { hasher.combine(application) }

    var isEncrypted: Bool { key != nil }
    /// How pages of stores are digested.
    var pageHash: PageHash { key?.pageHash ?? .plain }

    /// Seals a small file if the application is encrypted.
    func seal(_ bytes: [UInt8], as role: Role) -> [UInt8] {
        key.map { $0.seal(bytes, as: context(role)) } ?? bytes
    }

    /// Opens a small file, which holds at most `limit` bytes, if the application is encrypted; `path` is for errors.
    func open(
        _ bytes: [UInt8],
        as role: Role,
        at path: RemotePath,
        upTo limit: Int = Self.maximumBytes
    ) throws(StoreSyncError) -> [UInt8] {
        guard let key else { return bytes }
        let failure: StoreSyncError
        if EpochKey.isSealed(bytes) {
            do {
                return try key.open(bytes, as: context(role), upTo: limit)
            } catch {
                failure = StoreSyncError(error, at: path)
            }
        } else {
            failure = unsealed(path)
        }
        if case .syncOrigin = role { throw failure.explained(asOriginAt: path) }
        throw failure
    }

    private func unsealed(_ path: RemotePath) -> StoreSyncError {
        StoreSyncError(
            .tampered,
            """
            \(path) on the remote isn't sealed, but every file of \(application) is. It is still arriving, was damaged, or an \
            attacker put it there. If it stays so, restore it from a backup.
            """
        )
    }

    /// Opens and reads the info of a client.
    func deviceInfo(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) throws(StoreSyncError) -> DeviceInfo {
        let path = hierarchy.deviceInfo(client)
        return try DeviceInfo(open(bytes, as: .deviceInfo(client), at: path), at: path)
    }

    /// Opens and reads the info of a document.
    func documentInfo(_ bytes: [UInt8], _ hierarchy: DocumentHierarchy) throws(StoreSyncError) -> DocumentInfo {
        let path = hierarchy.documentInfo
        do {
            return try DocumentInfo(open(bytes, as: .documentInfo(hierarchy.document), at: path), at: path)
        } catch {
            throw error.explained(asDocumentInfoAt: path)
        }
    }

    /// Opens and reads the manifest of an upload.
    func manifest(
        _ bytes: [UInt8],
        named name: UploadName,
        of document: DocumentIdentity,
        at path: RemotePath
    ) throws(StoreSyncError) -> StoreManifest {
        do {
            return try StoreManifest(open(bytes, as: .manifest(name, of: document), at: path), named: name, at: path)
        } catch {
            throw error.explained(asManifestOf: name, at: path)
        }
    }

    /// The document that a note says was deleted.
    ///
    /// - Throws: ``StoreSyncError`` if the note isn't authentic.
    func deletedDocument(
        _ note: [UInt8],
        _ document: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) throws(StoreSyncError) -> DocumentInfo {
        let path = hierarchy.deletedDocument(document)
        // TICoreDataSync's own notes may have any content.
        guard isEncrypted else { return (try? DocumentInfo(note, at: path)) ?? DocumentInfo(deleted: document) }
        return try DocumentInfo(open(note, as: .deletedDocument(document), at: path), at: path)
    }

    /// Whether an authentic note says that the document with an integrity key was deleted.
    func saysDeleted(
        _ note: [UInt8]?,
        of document: RemoteIdentifier,
        integrityKey: String,
        _ hierarchy: ApplicationHierarchy
    ) -> Bool {
        guard let note, let deleted = try? deletedDocument(note, document, hierarchy) else { return false }
        return !isEncrypted || deleted.successorsPredecessors.contains(integrityKey)
    }

    func context(_ role: Role) -> SealedContext {
        var context = SealedContext(application: application.rawValue, role: role.word)
        context.document = role.identity?.document.rawValue
        context.integrityKey = role.identity?.integrityKey
        switch role {
        case .syncOrigin, .appFile:
            break
        case .documentInfo(let document), .deletedDocument(let document):
            context.document = document.rawValue
        case .integrityKey(let key, let document):
            context.document = document.rawValue
            context.upload = key
        case .deviceInfo(let client), .recentSync(let client, _):
            context.client = client.rawValue
        case .removedClient(let name), .deletedClient(let name, _):
            context.client = name.client.rawValue
            context.upload = name.remover?.rawValue
        case .syncHead(let name, let origin, _):
            context.client = name.client.rawValue
            context.upload = "\(origin.uuidString)/\(name.name)"
        case .syncSegment(let segment, let client, let origin, _):
            context.client = client.rawValue
            context.upload = "\(origin.uuidString)/\(segment.name)"
        case .manifest(let name, _), .file(_, let name, _), .delta(let name, _, _):
            context.client = name.client.rawValue
            context.generation = UInt64(name.generation)
            context.upload = name.upload
        }
        return context
    }
}

extension ApplicationSeal.Role {
    /// The document inside which the file is; `nil` outside, and where the file tells documents of one name apart.
    fileprivate var identity: DocumentIdentity? {
        switch self {
        case .deviceInfo, .documentInfo, .integrityKey, .deletedDocument, .removedClient: nil
        case .appFile(_, let document): document
        case .deletedClient(_, let document), .recentSync(_, let document), .syncOrigin(let document),
            .syncHead(_, _, let document), .syncSegment(_, _, _, let document), .manifest(_, let document),
            .file(_, _, let document), .delta(_, _, let document):
            document
        }
    }

    /// The role's name in the file format.
    fileprivate var word: String {
        switch self {
        case .deviceInfo: "deviceInfo"
        case .documentInfo: "documentInfo"
        case .integrityKey: "integrityKey"
        case .deletedDocument: "deletedDocument"
        case .removedClient: "removedClient"
        case .deletedClient: "deletedClient"
        case .recentSync: "recentSync"
        case .syncOrigin: "syncOrigin"
        case .syncHead: "syncHead"
        case .syncSegment: "syncSegment"
        // No other role begins with this word, whatever name the app chooses.
        case .appFile(let name, _): "app \(name)"
        case .manifest: "manifest"
        case .file(let file, _, _): file.rawValue
        // The number of bases and the last of them: the delta opens only on top of these.
        case .delta(_, let bases, _):
            "\(DocumentHierarchy.deltaName) \(bases.count)"
                + (bases.last.map { " \($0.generation)-\($0.upload)" } ?? "")
        }
    }
}
