public import Foundation
package import GRDB
public import RemoteStorage
public import StoreChanges

/// What merging overwrote or left out in a synchronized store.
///
/// ```swift
/// let log = ConflictLog(ofStoreAt: url, state: state)
/// for entry in try await log.entries() { print(entry.key, entry.conflict.summary) }
/// ```
///
/// Nothing is lost without an entry here. ``restore(_:)`` puts back what an entry lost, as an edit of the user.
public struct ConflictLog: Sendable {
    /// An entry.
    public struct Entry: Sendable, Hashable, Identifiable {
        /// The entry's number on this device, which it keeps.
        public let number: Int64
        /// The row's key in this device's store, with whole values.
        public let key: String
        /// What happened.
        public let conflict: Conflict
        /// The device whose edit was merged when the rule decided, and when it was made.
        public let author: ChangeAuthor
        /// The device that last changed the row before; `nil` if every device had seen its edit.
        public let other: ChangeAuthor?
        /// Whether the user has put back what was lost: on this device, or before it began with another device's store.
        public let isRestored: Bool
        /// Whether there is something to put back: the entry lost something, and isn't restored yet.
        public var canBeRestored: Bool { !isRestored && conflict.hasLoss }

        /// The number.
        public var id: Int64 { number }
    }

    private let url: URL
    private let state: StateDirectory
    private let document: SynchronizedDocument
    /// The app's connection to the store, through which the store is written; `nil` for a connection of its own.
    package var app: (any DatabaseWriter)?

    /// Opens the log of a store.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - state: The memory of the device that synchronizes it.
    ///   - document: The document, if the store belongs to several.
    public init(ofStoreAt url: URL, state: StateDirectory, document: RemoteIdentifier? = nil) {
        self.init(ofStoreAt: url, state: state, document.map { .named($0) } ?? .any)
    }

    init(ofStoreAt url: URL, state: StateDirectory, _ document: SynchronizedDocument) {
        self.url = url
        self.state = state
        self.document = document
    }

    /// The entries, the oldest first.
    ///
    /// - Parameter last: The number of the last entry that the caller has; only later ones are read. Restoring an older entry
    ///   since then isn't told.
    /// - Returns: All entries, unless `last` is given.
    /// - Throws: ``StoreSyncError``, with `storeNotFound` if the store doesn't exist or was never synchronized, and
    ///   `documentNotFound` if it belongs to several documents.
    public func entries(after last: Int64 = 0) async throws -> [Entry] {
        try await using { store in
            try store.conflicts(after: last).map { logged in
                let row = logged.conflict.row
                return Entry(
                    number: logged.number,
                    key: try store.number(of: row).map { "\($0)" } ?? row.row.literal,
                    conflict: logged.conflict,
                    author: logged.author,
                    other: logged.other,
                    isRestored: logged.isRestored
                )
            }
        }
    }

    /// Writes into the store what a conflict lost, as an edit of the user: the next synchronization publishes it.
    ///
    /// What the user changed before is recorded first. Restoring an entry again replaces what the row has got since, and a row
    /// that several devices restore is one row. Only a row without a key is added by every device that restores it. So offer
    /// the entries that ``Entry/canBeRestored`` names.
    ///
    /// - Parameter number: The number of the entry.
    /// - Throws: ``StoreSyncError``. `conflictNotFound`: there is no such entry, or it lost nothing. `cannotRestore`: a
    ///   constraint refuses the row, the store has no column or parent row for it any more, or this device has restored this
    ///   row without a key already. `massDeletion`: more than half of a table's rows are gone. `remoteUnavailable`: edits are
    ///   missing on which other devices have built.
    public func restore(_ number: Int64) async throws {
        try await using { _ = try $0.restore(number) }
    }

    private func using<Result: Sendable>(
        _ body: @escaping @Sendable (SynchronizedStore) throws -> Result
    ) async throws -> Result {
        try await state.withSynchronizedStore(at: url, of: document, through: app, body)
    }
}
