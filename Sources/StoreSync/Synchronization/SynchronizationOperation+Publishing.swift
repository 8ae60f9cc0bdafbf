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
        /// What this device remembers from now on.
        var memory: SynchronizationMemory
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
        let last = memory.segments.last?.last ?? 0
        let number = memory.number + 1
        var publication = try await replica.using(context) { try $0.publication(after: last, head: number) }
        let sequence = publication.sets.last?.header.id.sequence ?? last
        var published = Published(sequence: sequence, memory: memory)
        guard isDue(publication, sequence, memory) || own.isEmpty else {
            await removeFormerHeads(own)
            return published
        }
        // If this device dies after it forgot what all devices know, it still has to tell them.
        published.memory.acknowledged = nil
        try await remember(published.memory, context)
        publication = try await replica.using(context) { store in
            try store.trim()
            return try store.publication(after: last, head: number)
        }
        try await publish(publication, &published, since: replica.origin, context)
        await removeFormerHeads(own + published.memory.heads.suffix(1).compactMap { SyncHeadName($0) })
        return published
    }

    /// Whether there is anything that other devices need to know.
    private func isDue(
        _ publication: SynchronizedStore.Publication,
        _ sequence: UInt64,
        _ memory: SynchronizationMemory
    ) -> Bool {
        guard memory.sequence == sequence, let acknowledged = memory.acknowledged else { return true }
        return acknowledged.isOutdated(by: SynchronizationMemory.Acknowledgement(publication.head))
    }

    private func publish(
        _ publication: SynchronizedStore.Publication,
        _ published: inout Published,
        since origin: SyncOrigin,
        _ context: OperationContext
    ) async throws {
        var memory = published.memory
        let (catalog, sequence) = (catalog(since: origin), published.sequence)
        published.changes = publication.sets.filter { $0.header.id.sequence > memory.sequence ?? 0 }
            .reduce(0) { $0 + $1.changes.count }
        var tail = publication.sets
        if tail.reduce(0, { $0 + $1.encoded.count }) > Self.maximumTailBytes {
            // Written before the head that names it.
            let segment = SyncSegment((memory.segments.last?.last ?? 0) + 1...sequence)
            published.bytes += Int64(try await catalog.create(segment, tail, by: client))
            memory.segments.append(segment)
            tail = []
        }
        memory.number = publication.head.number
        let name = SyncHeadName(client: client, sequence: sequence, number: memory.number)
        let head = SyncHead(
            name,
            publication.head,
            origin: origin.identifier,
            segments: memory.segments,
            tail: tail
        )
        // Recorded before it's on the remote, so that this device never mistakes it for another device's.
        memory.heads = (memory.heads + [name.name]).suffix(Self.rememberedHeads)
        try await remember(memory, context)
        published.bytes += Int64(try await catalog.create(head))
        memory.sequence = sequence
        memory.acknowledged = SynchronizationMemory.Acknowledgement(publication.head)
        try await remember(memory, context)
        published.memory = memory
    }

    /// Removes all heads of this device but the newest; a failure leaves them to the next synchronization.
    private func removeFormerHeads(_ names: [SyncHeadName]) async {
        let former = names.filter { name in names.contains { $0.number > name.number } }
        _ = try? await former.concurrentMap { [hooks, hierarchy] in
            try await hooks.removeSyncFile(at: hierarchy.syncHead($0))
        }
    }

    /// Lets this device go on as a new client, because its change sets don't count any more.
    ///
    /// Only a registered client synchronizes, so the next synchronization is the first of the new client.
    func becomeAnotherClient(_ memory: SynchronizationMemory, _ context: OperationContext) async throws {
        var next = SynchronizationMemory(origin: memory.origin)
        next.others = memory.others
        try await remember(next, context)
        _ = try await context.blocking { [state, key] in try state.replaceClientIdentifier(for: key.application) }
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
