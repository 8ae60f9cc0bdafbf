import Foundation
public import RemoteStorage

/// The paths of a document's files on the remote.
///
///     Documents/<document>/
///       documentInfo.plist
///       IntegrityKey/<key>
///       DeletedClients/<client>-<remover>.plist, or TICoreDataSync's <client>.plist
///       RecentSyncs/<client>.recentsync
///       RecentSyncs/<client>-<sequence>-<number>-<unique>.recentsync   SyncHead
///       SyncChanges/origin.plist
///       SyncChanges/<client>/<first>-<last>-<unique>.syncchg           SyncSegment
///       SyncCommands/<client>/*.synccmd
///       TemporaryFiles/WholeStore/
///       WholeStore/<client>/<generation>-<upload>/WholeStore.ticdsync
///                                                 WholeStoreDelta.ticdsync, instead of the store
///                                                 AppliedSyncChangeSets.ticdsync
///                                                 AppliedSyncCommandSets.ticdsync
///       WholeStore/<client>/manifest-<generation>-<upload>.plist
///       WholeStore/<client>/WholeStore.ticdsync …   for readers that know only TICoreDataSync
///
/// The folder of an upload never changes. Its manifest, created once and last, publishes it.
public struct DocumentHierarchy: Sendable, Hashable {
    /// The document's identifier.
    public let document: RemoteIdentifier
    /// The document's directory.
    public let root: RemotePath

    init(_ document: RemoteIdentifier, root: RemotePath) {
        self.document = document
        self.root = root
    }

    /// What is known of the document.
    ///
    /// The document exists once this file does.
    public var documentInfo: RemotePath { root.appending(literal: "documentInfo.plist") }
    /// Holds one file, named by the document's integrity key.
    public var integrityKeys: RemotePath { root.appending(literal: "IntegrityKey") }
    /// Notes on clients that were removed from the document.
    public var deletedClients: RemotePath { root.appending(literal: "DeletedClients") }
    /// When each client last synchronized, and its newest edits.
    public var recentSyncs: RemotePath { root.appending(literal: "RecentSyncs") }
    /// The sets of changes of each client.
    public var syncChanges: RemotePath { root.appending(literal: "SyncChanges") }
    /// The sets of commands of each client.
    public var syncCommands: RemotePath { root.appending(literal: "SyncCommands") }
    /// Where TICoreDataSync prepares files.
    public var temporaryFiles: RemotePath { root.appending(literal: "TemporaryFiles") }
    /// Where TICoreDataSync prepares whole stores.
    public var temporaryWholeStore: RemotePath { temporaryFiles.appending(literal: "WholeStore") }
    /// The uploaded stores of each client.
    public var wholeStores: RemotePath { root.appending(literal: "WholeStore") }

    /// Every directory that always exists, parents before children.
    public var directories: [RemotePath] {
        [
            root, integrityKeys, deletedClients, recentSyncs, syncChanges, syncCommands, temporaryFiles,
            temporaryWholeStore, wholeStores,
        ]
    }

    /// The file whose name is an integrity key.
    ///
    /// - Throws: ``/RemoteStorage/RemoteError`` if the key isn't one path component.
    public func integrityKey(_ key: String) throws -> RemotePath { try integrityKeys.appending(key) }

    /// TICoreDataSync's note that a client was removed from the document.
    public func deletedClient(_ client: RemoteIdentifier) -> RemotePath { deletedClients.appending(tombstone: client) }
    /// When a client last synchronized.
    public func recentSync(_ client: RemoteIdentifier) -> RemotePath {
        recentSyncs.appending(client, extension: "recentsync")
    }
    /// The client whose file with the time of its last sync has that name; `nil` if the name has another form.
    static func client(ofRecentSyncNamed name: String) -> RemoteIdentifier? {
        RemoteIdentifier(ofFileNamed: name, extension: "recentsync")
    }
    /// A client's sets of changes.
    public func syncChanges(_ client: RemoteIdentifier) -> RemotePath { syncChanges.appending(client) }
    /// A client's sets of commands.
    public func syncCommands(_ client: RemoteIdentifier) -> RemotePath { syncCommands.appending(client) }
    /// A client's uploaded stores.
    public func wholeStores(_ client: RemoteIdentifier) -> RemotePath { wholeStores.appending(client) }

    /// Where the document's change sets begin; missing until a device synchronizes the document.
    public var syncOrigin: RemotePath { syncChanges.appending(literal: "origin.plist") }

    /// A client's head.
    func syncHead(_ name: SyncHeadName) -> RemotePath { recentSyncs.appending(valid: name.name) }

    /// A file with a client's older change sets.
    func syncSegment(_ segment: SyncSegment, of client: RemoteIdentifier) -> RemotePath {
        syncChanges(client).appending(valid: segment.name)
    }

    /// The folder of one upload.
    func upload(_ name: UploadName) -> RemotePath {
        wholeStores(name.client).appending(valid: name.directoryName)
    }

    /// The path of a store that was uploaded as a delta to former uploads.
    func delta(_ name: UploadName) -> RemotePath {
        upload(name).appending(valid: Self.deltaName)
    }

    /// The name of a delta in the upload's folder.
    static let deltaName = "WholeStoreDelta.ticdsync"

    /// The manifest that publishes an upload.
    func manifest(_ name: UploadName) -> RemotePath {
        wholeStores(name.client).appending(valid: name.manifestName)
    }

    /// Whether a path is that of a file, or of an upload's folder, which devices write only into a document.
    ///
    /// Other names are those of the system or of the software that syncs the folder, and of files that it prepares.
    func isContent(_ path: RemotePath) -> Bool {
        guard let name = path.lastComponent, let directory = path.parent else { return false }
        func isNamedAfterIdentifier(_ pathExtension: String) -> Bool {
            RemoteIdentifier(ofFileNamed: name, extension: pathExtension) != nil
        }
        switch directory {
        case integrityKeys: return Self.isIntegrityKey(name)
        case deletedClients: return !ClientNoteName.readings(of: name).isEmpty
        case recentSyncs: return SyncHeadName(name) != nil || Self.client(ofRecentSyncNamed: name) != nil
        case syncChanges: return path == syncOrigin
        default: break
        }
        guard let client = directory.lastComponent.flatMap({ try? RemoteIdentifier($0) }) else { return false }
        switch directory {
        case syncChanges(client): return isNamedAfterIdentifier("syncchg")
        case syncCommands(client): return isNamedAfterIdentifier("synccmd")
        case wholeStores(client):
            return UploadName(client: client, manifestName: name) != nil
                || UploadName(client: client, directoryName: name) != nil || WholeStoreFile(rawValue: name) != nil
        default: return false
        }
    }

    /// Whether a file in the directory of integrity keys is one.
    static func isIntegrityKey(_ name: String) -> Bool { UUID(uuidString: name) != nil }
}

/// The files that make up a whole store, by the names they have in every upload.
public enum WholeStoreFile: String, Sendable, Hashable, CaseIterable {
    /// The store itself.
    case store = "WholeStore.ticdsync"
    /// The sets of changes that the store contains.
    case appliedSyncChangeSets = "AppliedSyncChangeSets.ticdsync"
    /// The sets of commands that the store contains.
    case appliedSyncCommandSets = "AppliedSyncCommandSets.ticdsync"

    /// The files that travel with the store.
    static let appliedSets: [WholeStoreFile] = [.appliedSyncChangeSets, .appliedSyncCommandSets]

    func path(in directory: RemotePath) -> RemotePath { directory.appending(valid: rawValue) }
}
