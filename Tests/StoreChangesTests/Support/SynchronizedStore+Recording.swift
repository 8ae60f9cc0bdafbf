import Testing

@testable import StoreChanges

extension SynchronizedStore {
    /// Records what changed, which is at most one set in a small store.
    func recordSet(allowsDeletions: Bool = false, taking side: TakenSide? = nil) throws -> SyncChangeSet? {
        let sets = try recordChanges(allowsDeletions: allowsDeletions, taking: side)
        #expect(sets.count <= 1)
        return sets.first
    }
}
