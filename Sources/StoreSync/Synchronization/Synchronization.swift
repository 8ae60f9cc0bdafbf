public import Foundation
package import GRDB
public import RemoteStorage
public import StoreChanges

/// A synchronized store: the result of ``SynchronizationOperation``.
public struct Synchronization: Sendable, Hashable {
    /// The client that synchronized: this device.
    public let client: RemoteIdentifier
    /// The number of this device's last change set; 0 if it has none.
    public let sequence: UInt64
    /// How the whole store travelled; `nil` if only edits did.
    public let transfer: Transfer?
    /// What changed in the local store, by table.
    public let applied: [String: ChangeCounts]
    /// How many edits of this device were published.
    public let publishedChanges: Int
    /// The size of the files in which edits were published, in bytes, without a whole store that was uploaded.
    ///
    /// For a preview, it's the size of the edits alone.
    public let publishedBytes: Int64
    /// How many entries the conflict log has gained.
    public let conflicts: Int
    /// Clients whose edits have not arrived, or wait for edits of others that have not.
    public let waitingFor: [RemoteIdentifier]
    /// Warnings for the user, in full sentences.
    public internal(set) var warnings: [String]
    /// Whether everything that other devices have published arrived: no edits wait, and no file is missing or damaged.
    var isComplete = true

    /// How a whole store travels: the first device uploads it, and other devices begin with it.
    public enum Transfer: Sendable, Hashable {
        /// This device uploaded the document's first store.
        case uploaded
        /// This device downloaded a store to begin with.
        case downloaded
    }
}

/// A request to synchronize a store with a document.
public struct SynchronizationRequest: Sendable {
    /// The store, an SQLite database; it's downloaded if this device never had it.
    public var url: URL
    /// Whether more than half of a table's rows may be gone.
    public var allowsDeletions: Bool
    /// What counts if another store was synchronized last; without it, such a store is an error.
    public var takenSide: TakenSide?
    /// What the store's schema doesn't say; only the first synchronization of a document decides it.
    ///
    /// Later, other rules are refused with ``StoreSyncError/Code/documentSynchronizes``, and `nil` means the document's rules.
    public var rules: SyncRules?
    /// Whether the replica is built again from what is on the remote, because it's damaged or differs from other devices'.
    ///
    /// The former replica gives the edits that aren't published. If it can't be read, the rows of the store and of the
    /// document are matched, as ``takenSide`` does with `.both`: rows whose deletion isn't published come back, and a warning says
    /// so.
    ///
    /// If the app has taken a change of its schema back, nothing is built: the store's schema is the document's newest from
    /// then on.
    public var rebuildsReplica: Bool
    /// Whether nothing is changed or published: the result says what a synchronization would do.
    ///
    /// Only a device that has synchronized the document before can tell. A manager still registers a device that isn't
    /// registered, and then fails with ``StoreSyncError/Code/noUploadedStore``.
    public var isPreview: Bool
    /// The app's connection to the store, through which the store is written; `nil` for a connection of its own.
    package var app: (any DatabaseWriter)?

    /// Creates a request.
    public init(
        url: URL,
        allowsDeletions: Bool = false,
        takenSide: TakenSide? = nil,
        rules: SyncRules? = nil,
        rebuildsReplica: Bool = false,
        isPreview: Bool = false
    ) {
        self.url = url
        self.allowsDeletions = allowsDeletions
        self.takenSide = takenSide
        self.rules = rules
        self.rebuildsReplica = rebuildsReplica
        self.isPreview = isPreview
    }
}
