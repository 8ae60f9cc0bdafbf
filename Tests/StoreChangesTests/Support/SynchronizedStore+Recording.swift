import GRDB
import Testing

@testable import StoreChanges

extension SynchronizedStore {
    /// Takes the store as the document's first baseline, or as an equal copy of it.
    func begin() throws {
        try locked {
            try replicaDatabase.write { _ in try store.read { try replica.begin(with: $0) } }
        }
    }

    /// Records what changed, which is at most one set in a small store.
    func recordSet(allowsDeletions: Bool = false, taking side: TakenSide? = nil) throws -> SyncChangeSet? {
        let sets = try sets(recordChanges(allowsDeletions: allowsDeletions, taking: side))
        #expect(sets.count <= 1)
        return sets.first
    }

    /// Sets of this device with their changes.
    func sets(_ sets: [OwnSet]) throws -> [SyncChangeSet] {
        try sets.map(\.reference.id.sequence).flatMap { try ownSets($0...$0).map { try $0.decoded() } }
    }

    /// What a synchronization did, with the sets that it captured.
    struct Synchronized {
        var captured: [SyncChangeSet]
        var written: [String: ChangeCounts]
        var refusals: [RefusalSummary]
    }

    /// Synchronizes, and returns the sets that it captured with their changes.
    func synchronized(with sets: [SyncChangeSet], taking side: TakenSide? = nil) throws -> Synchronized {
        let outcome = try synchronize(with: sets, taking: side)
        return Synchronized(
            captured: try self.sets(outcome.captured),
            written: outcome.written,
            refusals: outcome.refusals
        )
    }
}
