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
    /// What changed in the local store, by table.
    public let applied: [String: ChangeCounts]
    /// How many edits of this device were published.
    public let publishedChanges: Int
    /// The size of what was published, in bytes.
    public let publishedBytes: Int64
    /// How many entries the conflict log has gained.
    public let conflicts: Int
    /// Clients whose edits wait for edits of others that have not arrived.
    public let waitingFor: [RemoteIdentifier]
    /// Warnings for the user, in full sentences.
    public let warnings: [String]
}

/// A request to synchronize a store with a document.
public struct SynchronizationRequest: Sendable {
    /// The store, an SQLite database; it's created if it doesn't exist.
    public var url: URL
    /// Whether more than half of a table's rows may be gone.
    public var allowsDeletions: Bool
    /// The app's connection to the store, through which the store is written; `nil` for a connection of its own.
    package var app: (any DatabaseWriter)?

    /// Creates a request.
    public init(url: URL, allowsDeletions: Bool = false) {
        self.url = url
        self.allowsDeletions = allowsDeletions
    }
}
