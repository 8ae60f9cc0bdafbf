import Foundation
import Operations
import RemoteStorage
import StoreChanges
import ThreadSupport

/// Publishing this device's change sets.
extension SynchronizationOperation {
    /// The size up to which the sets after the last segment travel in the head, in bytes.
    private static let maximumTailBytes = 64 << 10

    /// What was published.
    struct Published: Sendable {
        /// The number of this client's last set.
        var sequence: UInt64
        /// How many edits they are.
        var changes = 0
        /// The size of the files, in bytes.
        var bytes: Int64 = 0
    }

    /// Publishes this device's sets that aren't on the remote yet, and that it takes part.
    ///
    /// - Parameters:
    ///   - replica: The replica, opened as the client that `memory` names.
    ///   - own: The heads of this client that the remote lists.
    ///   - memory: What this device remembers. After an error it may be outdated.
    ///   - context: The operation's context.
    /// - Returns: What was published.
    /// - Throws: ``StoreSyncError``.
    @discardableResult
    func publish(
        from replica: SynchronizedReplica,
        besides own: [SyncHeadName],
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> Published {
        let number = memory.number + 1
        let this = replica.identity.client
        let (present, knowledge, waiting, last) = try await replica.using(context) { store in
            (
                try store.progress(), try store.knowledge(), try store.waitingClients(),
                try store.publishedSets()[this]?.sequence ?? 0
            )
        }
        let unchanged = Published(sequence: present.last?.sequence ?? 0)
        // A head that ends before sets that this client has published would look like a storage that was put back. After a
        // restoration from a backup, they may be missing or wait for others.
        guard !waiting.contains(this), memory.sequence ?? 0 <= last else { return unchanged }
        // A head that was lost on the remote is published again.
        let isThere = memory.newestHead.map(own.contains) ?? false
        guard !isThere || isDue(present, memory) else {
            await removeFormerHeads(own, memory)
            return unchanged
        }
        var next = memory
        // If this device dies after it forgot what all devices know, it still has to tell them.
        next.acknowledged = nil
        try await remember(next, context)
        let superfluous = try await forgetSegments(&next, since: replica.origin, knowledge)
        // What only the next head gives up may still have to be published again, if this device dies before.
        let removed = memory.removed
        let publication = try await replica.using(context) { [next] store in
            try store.trim(publishedUpTo: next.sequence ?? 0)
            try store.forgetOwnSets(upTo: removed)
            let publication = try store.publication(after: next.segments.last?.last ?? next.removed, head: number)
            try store.note(publication)
            return publication
        }
        if !isThere, memory.sequence != nil {
            // The storage was put back to an older state, and may have lost older files of this client, too.
            let there = try await restoreSegments(from: replica, next, context).map(\.name)
            next.created?.removeAll { !there.contains($0.segment.name) }
        }
        let published = try await publish(publication, &next, from: replica, context)
        memory = next
        await removeFormerHeads(own, memory)
        await remove(superfluous, of: memory)
        return published
    }

    /// Forgets this client's files that the newest two baselines contain and that all clients have seen, and returns them.
    ///
    /// Heads may name baselines whose files the storage has lost, so these are looked up before a file is given up.
    private func forgetSegments(
        _ memory: inout SynchronizationMemory,
        since origin: SyncOrigin,
        _ knowledge: LogKnowledge
    ) async throws -> [SyncSegment] {
        func forget(in memory: inout SynchronizationMemory) -> [SyncSegment] {
            let this = ClientID(rawValue: memory.client)
            return memory.forgetSegments(
                upTo: LogPruning.lastSuperfluous(of: this, for: this, in: memory.baselines, knowledge)
            )
        }
        var shortened = memory
        guard !forget(in: &shortened).isEmpty else { return [] }
        do {
            memory.baselines = try await baselines(since: origin).newest
        } catch let error as CancellationError {
            throw error
        } catch {
            // Publishing matters more; the next head gives the files up.
            return []
        }
        return forget(in: &memory)
    }

    /// Names the files of a copy of this device in the next head, if the copy's sets count.
    ///
    /// Otherwise this device has other sets of these numbers, and publishes its own. A head with fewer sets than this device
    /// has published, or with files that it gave up, may be an old one of its own that the storage shows again.
    func adoptFiles(
        of heads: [SyncHead],
        _ replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws {
        let copies = heads.filter { $0.name.client.rawValue == memory.client }
        guard !copies.isEmpty else { return }
        let present = try await replica.using(context) { try $0.progress() }
        // The newest one last: it decides.
        for head in copies.reversed() {
            // Other devices read this head now. This device replaces it if its own head would say something else, but not in
            // order to say that it has seen more: copies that can't read the same sets would replace each other's heads without
            // end. A head that names fewer sets does no harm: other devices only forget less.
            let isEqual =
                head.content.last == present.last && head.content.seenCount <= present.seenCount
                && head.removals == memory.removals && head.baselines == memory.baselines
            if !isEqual || head.removed < memory.removed { memory.acknowledged = nil }
            guard let last = head.content.last, last.sequence >= memory.sequence ?? 0, head.removed >= memory.removed
            else {
                continue
            }
            let counts = try await replica.using(context) { try $0.counts(last, of: head.content.client) }
            if counts { (memory.segments, memory.removed) = (head.segments, head.removed) }
        }
    }

    /// Creates this client's files with older change sets again that the storage has lost, and returns what was there.
    @discardableResult
    func restoreSegments(
        from replica: SynchronizedReplica,
        _ memory: SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [RemoteItem] {
        let (catalog, client) = (catalog(since: replica.origin), try RemoteIdentifier(memory.client))
        let there = try await hooks.listSyncSegments(of: client, hierarchy)
        let names = Set(there.map(\.name))
        for segment in memory.segments where !names.contains(segment.name) {
            let sets = try await replica.using(context) { try $0.ownSets(segment.numbers) }
            // A device that began with a baseline doesn't have its older sets any more.
            guard sets.count == segment.numbers.count else { continue }
            do {
                _ = try await catalog.create(segment, sets, by: client)
            } catch let error as StoreSyncError where error.code == .busy {
                // The listing was stale, and the file is there.
            }
        }
        return there
    }

    /// Creates this client's files with older change sets again that can't be read, under new names.
    ///
    /// - Returns: The files that can't be read, which the next head doesn't name any more.
    func replaceDamagedSegments(
        from replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [SyncSegment] {
        let (catalog, client) = (catalog(since: replica.origin), try RemoteIdentifier(memory.client))
        var damaged: [SyncSegment] = []
        for (index, segment) in memory.segments.enumerated() {
            let sets = try await replica.using(context) { try $0.ownSets(segment.numbers) }
            guard sets.count == segment.numbers.count, try await !catalog.has(sets, in: segment, of: client) else {
                continue
            }
            memory.segments[index] = SyncSegment(segment.numbers)
            _ = try await catalog.create(memory.segments[index], sets, by: client)
            damaged.append(segment)
        }
        return damaged
    }

    /// Whether there is anything that other devices need to know.
    private func isDue(_ head: ClientHead, _ memory: SynchronizationMemory) -> Bool {
        guard memory.sequence == head.last?.sequence ?? 0, let acknowledged = memory.acknowledged else { return true }
        return acknowledged.isOutdated(by: SynchronizationMemory.Acknowledgement(head, at: state.now()))
    }

    private func publish(
        _ publication: SynchronizedStore.Publication,
        _ memory: inout SynchronizationMemory,
        from replica: SynchronizedReplica,
        _ context: OperationContext
    ) async throws -> Published {
        // What this device remembers once the head is recorded.
        var next = memory
        let (catalog, client) = (catalog(since: replica.origin), try RemoteIdentifier(memory.client))
        let sequence = publication.head.last?.sequence ?? 0
        let new = publication.sets.filter { $0.sequence > memory.sequence ?? 0 }
        var tail = publication.sets
        // A device that began with a baseline doesn't have its own older sets any more, and needs none of them.
        if (next.segments.last?.last ?? next.removed) + UInt64(tail.count) < sequence {
            (next.segments, next.removed) = ([], (tail.first?.sequence ?? sequence + 1) - 1)
        }
        var files: [SyncSegment] = []
        if tail.reduce(0, { $0 + $1.byteCount }) > Self.maximumTailBytes {
            let created = memory.created(for: tail)
            let others = tail.drop { $0.sequence <= created.last?.last ?? 0 }
            files = others.runs(of: SyncSegment.usualBytes).map { SyncSegment($0) }
            next.segments += created + files
            tail = []
            memory.created = memory.created?.filter { created.contains($0.segment) }
        }
        let name = SyncHeadName(client: client, sequence: sequence, number: publication.head.number)
        let setsInHead = try await content(of: tail, replica, context)
        let head = SyncHead(name, publication, next, tail: setsInHead, published: state.now())
        guard head.isReadable else { throw try await tooLarge(next.baselines, replica, context) }
        // Written before the head that names them.
        var bytes = try await create(files, of: publication, &memory, from: replica, context)
        // Recorded before it's on the remote, so that this device never mistakes it for another device's.
        next.note(name)
        next.created = nil
        try await remember(next, context)
        bytes += Int64(try await catalog.create(head))
        next.bytesSinceBaseline += new.reduce(0) { $0 + Int64($1.byteCount) }
        next.sequence = sequence
        next.acknowledged = SynchronizationMemory.Acknowledgement(publication.head, at: head.published)
        try await remember(next, context)
        memory = next
        // Only now, since a retry publishes again what isn't remembered as published.
        let changes = new.reduce(0) { $0 + $1.changeCount }
        publishedChanges += changes
        return Published(sequence: sequence, changes: changes, bytes: bytes)
    }

    /// Creates files of this client with sets of a publication, remembers each, and returns their size in bytes.
    ///
    /// If this publication is interrupted, the next one resumes after the last of them.
    private func create(
        _ files: [SyncSegment],
        of publication: SynchronizedStore.Publication,
        _ memory: inout SynchronizationMemory,
        from replica: SynchronizedReplica,
        _ context: OperationContext
    ) async throws -> Int64 {
        let (catalog, client) = (catalog(since: replica.origin), try RemoteIdentifier(memory.client))
        var bytes: Int64 = 0
        for segment in files {
            let named = publication.sets.filter { segment.numbers.contains($0.sequence) }
            let sets = try await content(of: named, replica, context)
            bytes += Int64(try await catalog.create(segment, sets, by: client))
            guard let digest = sets.last?.digest.rawValue else { continue }
            let created = SynchronizationMemory.CreatedSegment(segment: segment, digest: digest)
            memory.created = (memory.created ?? []) + [created]
            try await remember(memory, context)
        }
        return bytes
    }

    /// The bytes of sets that follow one another.
    private func content(
        of sets: [SynchronizedStore.PublishedSet],
        _ replica: SynchronizedReplica,
        _ context: OperationContext
    ) async throws -> [EncodedChangeSet] {
        guard let first = sets.first, let last = sets.last else { return [] }
        let present = try await replica.using(context) { try $0.ownSets(first.sequence...last.sequence) }
        guard present.map(\.digest) == sets.map(\.digest) else {
            throw StoreSyncError(
                .busy,
                "Another process has synchronized \(document.document) meanwhile. Synchronize again."
            )
        }
        return present
    }

    /// The error of a head that no device could read.
    private func tooLarge(
        _ baselines: [SyncBaseline],
        _ replica: SynchronizedReplica,
        _ context: OperationContext
    ) async throws -> StoreSyncError {
        let knowledge = try await replica.using(context) { try $0.knowledge() }
        let furthest = LogPruning.furthestBehind(replica.identity.client, in: baselines, knowledge)
        let cause = furthest.map { client in
            """
            This device's edits are kept for client \(client), which has seen the fewest: synchronize on it, or remove it if \
            its device is lost (storesync remove client \(client)). Then run
            """
        }
        return StoreSyncError(
            .cannotWrite,
            """
            The file that names all edits of this device would be too large for other devices to read. Nothing was \
            published. \(cause ?? "Run") storesync vacuum, which removes the edits that all devices have.
            """
        )
    }

    /// Continues as the client that this device is registered as by now.
    ///
    /// What it captured as its former client is published before, unless it doesn't count.
    func continueAsRegisteredClient(
        _ replica: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws {
        guard memory.client != client.rawValue else { return }
        let former = replica.opened(as: ClientID(rawValue: memory.client))
        // Its first head may have been published although that failed as far as this device knows.
        let known = try await former.using(context) { try $0.publishedSets()[former.identity.client] }
        if memory.sequence != nil || known != nil, let own = try await catchUp(as: former, &memory, context) {
            try await publish(from: former, besides: own, &memory, context)
        }
        memory.become(client)
        try await remember(memory, context)
    }

    /// Integrates what this device has published as a former client.
    ///
    /// Before it was restored from a backup, that may have been other sets than it has captured since.
    ///
    /// - Returns: The former client's heads that the remote lists; `nil` if they can't all be read, or its sets don't count.
    private func catchUp(
        as former: SynchronizedReplica,
        _ memory: inout SynchronizationMemory,
        _ context: OperationContext
    ) async throws -> [SyncHeadName]? {
        let known = try await former.using(context) { try $0.publishedSets() }
        if known[former.identity.client]?.sequence ?? 0 < memory.sequence ?? 0 { memory.readHeadsAgain() }
        let catalog = catalog(since: former.origin)
        let client = try RemoteIdentifier(memory.client)
        let news = try await catalog.news(for: client, besides: known, memory)
        if let other = news.rolledBack.first {
            // Other devices need what the storage has lost of this one.
            if try await former.using(context, { try !$0.hasLostIdentity() }) {
                try await publish(from: former, besides: news.own, &memory, context)
            }
            throw rolledBack(other)
        }
        guard news.gaps.isEmpty, !news.unreadable.contains(client) else { return nil }
        memory.note(news)
        let counts = try await former.using(context) { store in
            try store.integrate(news.sets, news: news.log)
            return try !store.hasLostIdentity()
        }
        try await adoptFiles(of: news.heads, former, &memory, context)
        return counts ? news.own : nil
    }

    func catalog(since origin: SyncOrigin) -> SyncCatalog {
        SyncCatalog(
            hooks: hooks,
            hierarchy: hierarchy,
            seal: seal,
            identity: document.identity,
            origin: origin.identifier,
            inbox: ChangeSetInbox(in: URL(filePath: state.path.text)),
            removed: { [document, backend] in
                try await RemovedClients.read(of: $0, document, backend.documentRegistrationHooks).clients
            }
        )
    }
}

extension Sequence<SynchronizedStore.PublishedSet> {
    /// The numbers of the sets in runs that have at most `byteCount` bytes together; a larger set is alone.
    fileprivate func runs(of byteCount: Int) -> [ClosedRange<UInt64>] {
        var runs: [ClosedRange<UInt64>] = []
        var size = 0
        for set in self {
            if let last = runs.last, size + set.byteCount <= byteCount {
                runs[runs.count - 1] = last.lowerBound...set.sequence
            } else {
                runs.append(set.sequence...set.sequence)
                size = 0
            }
            size += set.byteCount
        }
        return runs
    }
}
