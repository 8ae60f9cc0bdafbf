import Foundation
import Operations
import RemoteStorage
import StoreChanges
import ThreadSupport

/// Publishing this device's change sets.
extension SynchronizationOperation {
    /// The size up to which the sets after the last segment travel in the head, in bytes.
    private static let maximumTailBytes = 64 << 10
    /// How many names of heads this device remembers, to tell its own from those of a copy of this device.
    private static let rememberedHeads = 64

    /// What was published.
    struct Published: Sendable {
        /// The number of this client's last set.
        var sequence: UInt64
        /// The number of its edits.
        var changes = 0
        /// The size of the files, in bytes.
        var bytes: Int64 = 0
    }

    /// Publishes this device's sets that aren't on the remote yet, and that it takes part.
    ///
    /// - Parameters:
    ///   - replica: The replica.
    ///   - own: The heads of this client that the remote has.
    ///   - memory: What this device remembers.
    ///   - context: The operation's context.
    /// - Returns: What was published.
    /// - Throws: ``StoreSyncError``.
    func publish(
        from replica: SynchronizedReplica,
        besides own: [SyncHeadName],
        _ memory: SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> Published {
        var memory = memory
        let last = memory.segments.last?.last ?? 0
        let number = memory.number + 1
        let publication = try await replica.using(context) { try $0.publication(after: last, head: number) }
        let sequence = publication.sets.last?.header.id.sequence ?? last
        var published = Published(sequence: sequence)
        let acknowledged = SynchronizationMemory.Acknowledgement(
            sets: publication.head.seen.values.reduce(0) { $0 + $1.sequence },
            date: Date()
        )
        let isOutdated = memory.acknowledged?.isOutdated(by: acknowledged) ?? true
        // A head that was lost on the remote is published again.
        guard memory.sequence != sequence || isOutdated || own.isEmpty else {
            await removeFormerHeads(own)
            return published
        }
        published.changes = publication.sets.reduce(0) {
            $0 + ($1.header.id.sequence > memory.sequence ?? 0 ? $1.changes.count : 0)
        }
        let catalog = catalog(since: replica.origin)
        var tail = publication.sets
        if tail.reduce(0, { $0 + $1.encoded.count }) > Self.maximumTailBytes {
            // Written before the head that names it.
            let segment = SyncSegment(last + 1...sequence)
            published.bytes += Int64(try await catalog.create(segment, tail, by: client))
            memory.segments.append(segment)
            tail = []
        }
        memory.number = number
        let name = SyncHeadName(client: client, sequence: sequence, number: number)
        let head = SyncHead(
            name,
            publication.head,
            origin: replica.origin.identifier,
            segments: memory.segments,
            tail: tail
        )
        // Recorded before it's on the remote, so that this device never mistakes it for another device's.
        memory.heads = (memory.heads + [name.name]).suffix(Self.rememberedHeads)
        try await remember(memory, context)
        published.bytes += Int64(try await catalog.create(head))
        (memory.sequence, memory.acknowledged) = (sequence, acknowledged)
        try await remember(memory, context)
        await removeFormerHeads(own + [name])
        return published
    }

    /// Removes all heads of this device but the newest; a failure leaves them to the next synchronization.
    private func removeFormerHeads(_ names: [SyncHeadName]) async {
        let former = names.filter { name in names.contains { $0.number > name.number } }
        _ = try? await former.concurrentMap { [hooks, hierarchy] in
            try await hooks.removeSyncFile(at: hierarchy.syncHead($0))
        }
    }

    /// Refuses to go on if a head of this client was published by another device.
    func refuseTwin(_ own: [SyncHeadName], _ memory: SynchronizationMemory) throws {
        guard own.allSatisfy({ memory.heads.contains($0.name) }) else {
            throw StoreSyncError(
                .identityTwice,
                """
                Another device publishes change sets as client \(client): this device's state was copied, or restored \
                from a backup. Synchronize with another state directory (--state), to a path where no store is.
                """
            )
        }
    }

    func catalog(since origin: SyncOrigin) -> SyncCatalog {
        SyncCatalog(
            hooks: hooks,
            hierarchy: hierarchy,
            seal: seal,
            identity: document.identity,
            origin: origin.identifier
        )
    }
}
