import RemoteStorage
import ThreadSupport

/// Removing what this client has published and no device needs any more.
extension SynchronizationOperation {
    /// Removes this client's former heads; a failure leaves them to the next synchronization.
    ///
    /// If a copy of this device has published more sets, its head stays until this client has published as many, even if the
    /// copy's sets don't count. Without that head, other devices would take the storage for an older state that was put back.
    func removeFormerHeads(_ own: [SyncHeadName], _ memory: SynchronizationMemory) async {
        guard let newest = memory.newestHead else { return }
        let former = own.filter {
            memory.heads.contains($0.name) && $0 != newest && $0.sequence <= newest.sequence
        }
        _ = try? await former.concurrentMap { [hooks, hierarchy] in
            try await hooks.removeSyncFile(at: hierarchy.syncHead($0))
        }
    }

    /// Removes files that no head names any more; a failure leaves them to the next vacuum.
    func remove(_ segments: [SyncSegment], of memory: SynchronizationMemory) async {
        guard let client = try? RemoteIdentifier(memory.client) else { return }
        _ = try? await segments.concurrentMap { [hooks, hierarchy] in
            try await hooks.removeSyncFile(at: hierarchy.syncSegment($0, of: client))
        }
    }
}
