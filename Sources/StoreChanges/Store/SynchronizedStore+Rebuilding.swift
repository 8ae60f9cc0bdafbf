import DatabaseSupport
import FileSupport
package import Foundation
import GRDB

/// Building a replica again, from the store with which all devices begin and from all change sets.
extension SynchronizedStore {
    /// What a replica is built from.
    package struct Sources: Sendable {
        /// The store with which this device begins.
        package var beginning: Beginning
        /// All sets on the storage that the store doesn't contain.
        package var sets: [any ChangeSetSource]
        /// What the storage says besides sets.
        package var news: LogNews
        /// Whether more than half of a table's rows may be gone from the local store.
        package var allowsDeletions = false
        /// Whether all of this device's own sets are among these; otherwise the former replica has to give the others.
        package var hasAllOwnSets = true

        package init(beginning: Beginning, sets: [any ChangeSetSource], news: LogNews) {
            self.beginning = beginning
            // What the local store has beyond it is in the former replica's sets.
            self.beginning.isOfOtherStore = true
            self.sets = sets
            self.news = news
        }
    }

    /// Builds the replica of a store again; the next synchronization writes into the store what differs.
    ///
    /// The former replica gives the sets that aren't published, and the numbers of rows, schemas and conflicts. If it's
    /// damaged, the rows of the store and of the document are matched, as ``TakenSide/both`` does. If a read fails, or this
    /// process dies, the former replica stays.
    ///
    /// If the former replica is whole, and the store has an older schema, that is the newest from then on: the user says that
    /// the app took a change of its schema back. Nothing else is done then.
    ///
    /// If the store isn't the former replica's, and the options allow that, it isn't captured. The rebuilt replica doesn't
    /// know that store either, and the next synchronization takes it.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - replicaURL: The replica.
    ///   - store: The store.
    ///   - sources: What the replica is built from.
    ///   - identity: What the replica belongs to.
    ///   - options: How the store is synchronized.
    /// - Returns: Whether the former replica could be read.
    /// - Throws: ``StoreChangesError``, with `identityTwice` if own sets are lost.
    package static func rebuildReplica(
        at replicaURL: URL,
        ofStoreAt store: URL,
        from sources: Sources,
        _ identity: Identity,
        options: Options
    ) throws -> Bool {
        let rebuilding = Rebuilding(
            replica: replicaURL,
            store: store,
            sources: sources,
            identity: identity,
            options: options
        )
        let former: FormerReplica
        do {
            former = try rebuilding.openFormer()
        } catch let error as StoreChangesError where error.code == .newerSchema {
            try rebuilding.takeOlderSchema()
            return true
        }
        try rebuilding.replace(former)
        return former.opened != nil
    }

    /// The replica that a rebuilt one replaces.
    private struct FormerReplica {
        /// The replica, with the edits of its store recorded; `nil` if it's damaged.
        var opened: SynchronizedStore?
        /// Whether the store isn't the replica's, so that its edits aren't recorded.
        var isOfOtherStore = false
    }

    /// What is built again, and from what.
    private struct Rebuilding {
        let replica: URL
        let store: URL
        let sources: Sources
        let identity: Identity
        let options: Options

        private var rebuilt: URL { replica.appendingPathExtension("rebuilt") }

        /// Opens the replica, and records what its store has gained since.
        ///
        /// Only a replica that is damaged is given up, since it has what isn't published: not for a damaged store, nor for a
        /// read that failed.
        func openFormer() throws -> FormerReplica {
            var opened: SynchronizedStore?
            do {
                let former = try SynchronizedStore(storeAt: store, replicaAt: replica, identity, options: options)
                opened = former
                former.replica.capturesVoidSets = true
                try former.adopt()
                _ = try former.recordChanges(allowsDeletions: sources.allowsDeletions)
            } catch let error as StoreChangesError where error.code == .corrupt {
                if let cause = error.cause as? DatabaseError, cause.fault(ofDatabaseAt: replica.path) != .damage {
                    throw StoreChangesError(cause, storeAt: store, replicaAt: replica)
                }
                guard sources.hasAllOwnSets else { throw StoreChangesError.ownSetsLost }
                return FormerReplica(opened: nil)
            } catch let error as StoreChangesError
                where error.code == .storeReplaced && opened != nil && options.takesOtherStore
            {
                return FormerReplica(opened: opened, isOfOtherStore: true)
            }
            return FormerReplica(opened: opened)
        }

        /// Makes the store's older schema the replica's newest.
        func takeOlderSchema() throws {
            var options = options
            options.takesOlderSchema = true
            _ = try SynchronizedStore(storeAt: store, replicaAt: replica, identity, options: options)
        }

        /// Builds a replica and replaces the former one, unless that has changed meanwhile: then it starts over.
        func replace(_ former: FormerReplica) throws {
            defer { try? SynchronizedStore.remove(rebuilt) }
            do {
                var isReplaced = false
                while !isReplaced {
                    let state = try build(from: former)
                    isReplaced = try SynchronizedStore.replace(replica, by: rebuilt) {
                        try isUnchanged(former, since: state)
                    }
                }
            } catch let error as CocoaError {
                throw StoreChangesError(.cannotWrite, "\(replica.path) can't be replaced.", cause: error)
            } catch let error as StoreChangesError where error.code == .newerSchema {
                throw StoreChangesError.olderThanBaseline
            }
        }

        /// Builds a replica beside the former one; returns the state that the former one had when it gave its sets.
        private func build(from former: FormerReplica) throws -> FormerState? {
            try SynchronizedStore.remove(rebuilt)
            try SynchronizedStore.createReplica(at: rebuilt, from: sources.beginning, identity) {
                try $0.takeVersions(of: former.opened, sources.sets)
            }
            var options = options
            // Another store must not bring the rebuilt replica to its schema either.
            options.isRebuilding = !former.isOfOtherStore
            let building = try SynchronizedStore(storeAt: store, replicaAt: rebuilt, identity, options: options)
            let state = try building.integrate(sources, former.opened)
            if !former.isOfOtherStore {
                _ = try building.recordChanges(taking: former.opened == nil ? .both : .remote)
            }
            return state
        }

        /// Whether a rebuilt replica has all that the former one has; no process uses either.
        private func isUnchanged(_ former: FormerReplica, since state: FormerState?) throws -> Bool {
            guard let opened = former.opened else { return true }
            // The rebuilt replica lacks what another process has recorded since, and has taken the store as it is.
            guard try opened.replicaDatabase.read({ _ in try FormerState(opened.replica) }) == state else {
                return false
            }
            // What an app wrote meanwhile is captured by the former replica first.
            return try former.isOfOtherStore
                || opened.recordChangesLocked(allowsDeletions: sources.allowsDeletions).isEmpty
        }
    }

    /// Replaces a replica while no process uses it, if a condition holds then; returns whether it did.
    private static func replace(_ replica: URL, by rebuilt: URL, if isReady: () throws -> Bool) throws -> Bool {
        let lock = try lock(replica)
        defer { lock.unlock() }
        guard try isReady() else { return false }
        try replace(rebuilt, at: replica)
        return true
    }

    static func remove(_ replica: URL) throws {
        // SQLite would apply a journal to another database of its name.
        for suffix in ["-journal", ".copy", ".lock", ""]
        where FileManager.default.fileExists(atPath: replica.path + suffix) {
            try FileManager.default.removeItem(atPath: replica.path + suffix)
        }
    }

    /// Removes a replica, and what a process that died has left of it.
    ///
    /// Blocks.
    ///
    /// - Parameter replica: The replica.
    /// - Throws: `CocoaError`.
    package static func removeReplica(at replica: URL) throws {
        for pathExtension in ["building", "rebuilt"] { try remove(replica.appendingPathExtension(pathExtension)) }
        try remove(replica)
    }

    /// What another process changes in a replica when it records edits or writes the store.
    private struct FormerState: Equatable {
        private let lastSet: SeenSet?
        private let token: [UInt8]?

        /// Reads the state, in a transaction.
        init(_ replica: Replica) throws {
            lastSet = try replica.log.lastCaptured(by: replica.client)
            token = try ReplicaFact.token.read(replica.db)
        }
    }

    /// Integrates what a replica is built from; returns the state of the former replica that gave its sets.
    private func integrate(_ sources: Sources, _ former: SynchronizedStore?) throws -> FormerState? {
        try writeReplica { replica in
            var own: [(ReplicaLog.Origin, [SyncChangeSet])] = []
            let formerState = try former.map { store in
                try store.replicaDatabase.read { _ in
                    let former = store.replica
                    try replica.takeNumbers(of: former)
                    try replica.takeConflicts(of: former)
                    own = try [.otherDevice, .published, .captured, .withdrawn].map {
                        ($0, try former.ownSets(from: $0))
                    }
                    return try FormerState(former)
                }
            }
            try replica.integrate(sources.sets)
            // If these don't count any more, another client captures them again.
            for (origin, sets) in own { try replica.integrate(sets, from: origin) }
            try replica.remember(sources.news)
            try former?.replicaDatabase.read { _ in
                guard let former else { return }
                try replica.takeEditsOfVoidSets(from: former.replica)
                try replica.logEditsLost(from: former.replica)
                try replica.takeConflictNumbers(of: former.replica)
            }
            return formerState
        }
    }
}

extension Replica {
    /// The sets of this device's present client, and what it captured that doesn't count and isn't captured again yet.
    fileprivate func ownSets(from origin: ReplicaLog.Origin) throws -> [SyncChangeSet] {
        try db.all(
            """
            SELECT bytes FROM sets
            WHERE bytes IS NOT NULL AND origin = ?
            AND (client = ? AND \(ReplicaLog.Status.isIntegrated) OR \(ReplicaLog.Origin.isNotCapturedAgain))
            ORDER BY client, sequence
            """,
            [.integer(origin.rawValue), .text(client.rawValue)]
        ).map { try SyncChangeSet(decoding: $0.bytes(0) ?? []) }
    }

    /// Takes the numbers of schemas from a former replica and from sets.
    ///
    /// With these numbers, the store's schema can be newer than the baseline's, if the app has taken a change back.
    fileprivate func takeVersions(of former: SynchronizedStore?, _ sets: [any ChangeSetSource]) throws {
        if let former {
            try former.replicaDatabase.read { _ in try log.versions.take(from: former.replica.log.versions) }
        }
        for set in sets { _ = try log.versions.remember(set.header) }
        try log.readAgain()
    }

    /// Takes from a former replica which rows have which numbers in the store.
    fileprivate func takeNumbers(of former: Replica) throws {
        // Either counter may be behind after the device was restored from a backup.
        let counters = [try ReplicaFact.counter.readNumber(former.db), try ReplicaFact.counter.readNumber(db)]
        try ReplicaFact.counter.writeNumber(counters.max() ?? 0, db)
        let numbers = ReplicaNumbers(state)
        try former.db.forEach("SELECT tbl, name, number, wish FROM numbers") { values in
            let table = former.state.tableName(values.integer(0))
            guard state.schema.tables[table] != nil else { return }
            let row = RowReference(table, try values.rowName(1))
            if let number = values.integer(2) {
                try numbers.setNumber(number, of: row)
            } else if let number = try numbers.number(of: row) {
                // On the device from which the replica was begun, the row has it.
                try numbers.release(number, in: table)
            }
            if let wish = values.integer(3) { try numbers.setWish(wish, of: row) }
        }
    }

    /// Takes the conflicts that integrating further sets doesn't give again: those of sets that the checkpoint contains,
    /// and those of no set, which the user gave up.
    fileprivate func takeConflicts(of former: Replica) throws {
        let integrated = try log.integrated()
        try takeConflicts(of: former) {
            $0.conflict.set.sequence <= integrated[$0.conflict.set.client]?.sequence ?? 0
        }
    }

    /// Takes from a former replica the lost edits of sets that don't count here either.
    fileprivate func takeEditsOfVoidSets(from former: Replica) throws {
        try takeConflicts(of: former) {
            try Conflict.Rule.ofVoidSets.contains($0.conflict.rule)
                && (!log.counts($0.conflict.set, at: $0.author.time)
                    || former.log.isVoid($0.conflict.set, at: $0.author.time))
        }
    }

    /// Takes the conflicts of a former replica that fulfil a condition, without the ones that this replica has.
    private func takeConflicts(of former: Replica, where isTaken: (LoggedConflict) throws -> Bool) throws {
        // Mostly the entries of a set follow each other.
        var (set, known): (SetID?, Set<Conflict>) = (nil, [])
        try former.forEachConflict { entry in
            let conflict = entry.conflict
            guard try isTaken(entry) else { return }
            if set != conflict.set { (set, known) = (conflict.set, try conflicts(of: conflict.set)) }
            guard known.insert(conflict).inserted else { return }
            try log.insert(conflict, entry.author.time, entry.other)
        }
    }
}

extension StoreChangesError {
    fileprivate static let olderThanBaseline = StoreChangesError(
        .newerSchema,
        """
        The store has an older schema than the newest store of the document on the remote. Update the app on this device. If \
        the newest app has taken a change of its schema back, synchronize an edit on another device with that app first, then \
        synchronize again.
        """
    )

    fileprivate static let ownSetsLost = StoreChangesError(
        .identityTwice,
        "This device has published edits that neither its damaged replica nor the storage has."
    )
}
