/// Decides which sets count.
///
/// All others are *void*, for every replica alike, whatever the order of arrival.
///
/// A set is void if:
/// 1. its client was removed, and the note of the removal names a lower number as the last that counts;
/// 2. a published stable prefix lacks it, and it isn't beyond that prefix: it sorts before the prefix's end, or its author
///    hadn't seen all of the prefix. Replicas that trimmed the prefix couldn't apply it as others do. While a set of the
///    prefix is unknown, its client's sets with lower numbers may be in the prefix, so the prefix makes none of them void;
/// 3. its client has another set of the same number, because a device was copied with its identity, and the other one has
///    the lesser digest. If the other one is in a published prefix, this one can't be beyond it;
/// 4. this device has withdrawn it;
/// 5. the client's previous set is void. So the sets of a client that count have no gaps, its author continues as a new
///    client, and the vector of a prefix says all.
///
/// An author that had seen a void set had seen its client up to the last set that counts.
///
/// Example: A phone is copied with its identity, and both phones capture a third set. All replicas keep the one with the
/// lesser digest; the phone that captured the other one publishes its edits again as a new client.
package struct SetJudgement {
    let knowledge: LogKnowledge
    let entries: [SetReference: LogEntry]
    /// For the last set that a prefix has of a client, the client's later sets that don't follow it.
    private let unrelated: [SetReference: Set<SetReference>]
    /// The sets that heads list as void, whether they have arrived or not, each with the last number before it that counts.
    private let listed: [SetReference: UInt64]
    /// The known sets that are void.
    package private(set) var void: Set<SetReference> = []

    /// Judges sets.
    ///
    /// - Parameters:
    ///   - entries: All known sets but those of the replica's own stable prefix.
    ///   - knowledge: What is known besides sets.
    package init(_ entries: [LogEntry], _ knowledge: LogKnowledge) {
        self.knowledge = knowledge
        self.entries = Dictionary(entries.map { ($0.reference, $0) }) { first, _ in first }
        let ends = knowledge.prefixes.flatMap(\.vector).map { SetReference($0.key, $0.value) }
        unrelated = Self.unrelatedSets(to: ends, entries)
        let voids = knowledge.heads.values.flatMap(\.voids)
        listed = Dictionary(voids.map { ($0.set, $0.lastSequence) }, uniquingKeysWith: min)
        judge(entries)
    }

    /// Finds the sets that don't follow others, although they are their client's and have greater numbers.
    private static func unrelatedSets(
        to sets: [SetReference],
        _ entries: [LogEntry]
    ) -> [SetReference: Set<SetReference>] {
        let entriesOfClients = Dictionary(grouping: entries, by: \.id.client).mapValues {
            $0.sorted { $0.id.sequence < $1.id.sequence }
        }
        var unrelated: [SetReference: Set<SetReference>] = [:]
        for set in Set(sets) {
            var found: Set<SetReference> = []
            for entry in entriesOfClients[set.id.client] ?? [] where entry.id.sequence > set.id.sequence {
                guard let predecessor = entry.predecessor else { continue }
                let isUnrelated =
                    predecessor.id.sequence > set.id.sequence ? found.contains(predecessor) : predecessor != set
                if isUnrelated { found.insert(entry.reference) }
            }
            unrelated[set] = found
        }
        return unrelated
    }

    private mutating func judge(_ entries: [LogEntry]) {
        let prefixes = knowledge.publishedPrefixes.map { (prefix: $0, members: members(of: $0)) }
        let published = prefixes.reduce(into: Set<SetReference>()) { $0.formUnion($1.members.known) }
        for entry in entries {
            let isPublished = published.contains(entry.reference)
            let isRemoved = knowledge.removals[entry.id.client].map { entry.id.sequence > $0 } ?? false
            let isLate =
                knowledge.stable.map { !isBeyond($0, entry) } ?? false
                || !isPublished
                    && prefixes.contains { !$0.members.mayContain(entry.id) && !isBeyond($0.prefix, entry) }
            if isLate || isRemoved && !isPublished || entry.isWithdrawn { void.insert(entry.reference) }
        }
        judgeCopies(entries)
    }

    /// Whether a set that is about to be captured wouldn't count, because its author hasn't seen all of a prefix.
    func isLate(_ header: SyncChangeSet.Header) -> Bool {
        let entry = LogEntry(header, .none)
        return knowledge.prefixes.contains { !isBeyond($0, entry) }
    }

    /// Refuses to capture a set that wouldn't count although its author has seen all that has arrived.
    ///
    /// - Throws: ``MissingSets``.
    func refuseMissingSets(_ header: SyncChangeSet.Header) throws(MissingSets) {
        guard isLate(header) else { return }
        let entry = LogEntry(header, .none)
        throw MissingSets(
            clients: Set(knowledge.prefixes.flatMap { $0.vector.filter { !hasSeen(entry, $0, $1) }.keys })
        )
    }

    /// The sets of a prefix, as far as that can be told.
    private struct Members {
        var known: Set<SetReference> = []
        /// The number of each client's last set in the prefix that is unknown.
        var unknown: [ClientID: UInt64] = [:]

        /// Whether it can't be told yet that a set isn't in the prefix, because a later one of its client is unknown.
        func mayContain(_ set: SetID) -> Bool { set.sequence < unknown[set.client] ?? 0 }
    }

    /// Finds the sets of a prefix, from the last one of each client to the first.
    ///
    /// At an unknown set the search ends: which sets it follows isn't known.
    private func members(of prefix: StablePrefix) -> Members {
        var members = Members()
        for (client, seen) in prefix.vector {
            var next: SetReference? = SetReference(client, seen)
            while let reference = next {
                guard let entry = entries[reference] else {
                    members.unknown[client] = reference.id.sequence
                    break
                }
                members.known.insert(reference)
                next = entry.predecessor
            }
        }
        return members
    }

    /// Whether a set sorts after a prefix that its author had seen.
    private func isBeyond(_ prefix: StablePrefix, _ entry: LogEntry) -> Bool {
        guard entry.position > prefix.position else { return false }
        return prefix.vector.allSatisfy { hasSeen(entry, $0, $1) }
    }

    /// Whether a set's author had seen a client's set, which may be its own.
    private func hasSeen(_ entry: LogEntry, _ client: ClientID, _ last: SeenSet) -> Bool {
        if client == entry.id.client { return entry.predecessor.map { descends($0, from: last) } ?? false }
        return entry.header.seen[client].map { descends(SetReference(client, $0), from: last) } ?? false
    }

    /// Whether a set is, or follows, a client's set; also if that can't be told yet because sets are missing.
    private func descends(_ reference: SetReference, from last: SeenSet) -> Bool {
        let set = SetReference(reference.id.client, last)
        return reference.id.sequence > last.sequence ? unrelated[set]?.contains(reference) != true : reference == set
    }

    // MARK: Copies

    /// Judges sets of one number, and the successors of void sets.
    private mutating func judgeCopies(_ entries: [LogEntry]) {
        let byNumber = Dictionary(grouping: entries, by: \.id)
        for (_, copies) in byNumber.sorted(by: { $0.key.sequence < $1.key.sequence }) {
            for copy in copies where copy.predecessor.map(isVoid) ?? false { void.insert(copy.reference) }
            // A set whose predecessor is missing can't be chosen: it isn't known of which of two it is the successor.
            let candidates = copies.filter { !void.contains($0.reference) && isRooted($0) }
            let chosen = candidates.min { $0.digest.rawValue.lexicographicallyPrecedes($1.digest.rawValue) }
            for copy in candidates where copy != chosen { void.insert(copy.reference) }
        }
    }

    /// Whether a set's predecessor is known.
    private func isRooted(_ entry: LogEntry) -> Bool {
        guard let predecessor = entry.predecessor else { return true }
        return entries[predecessor] != nil || isStable(predecessor)
    }

    /// Whether a set is void, as far as that is known.
    func isVoid(_ reference: SetReference) -> Bool {
        if entries[reference] != nil { return void.contains(reference) }
        return !isStable(reference) && isListed(reference)
    }

    // MARK: What sets had seen

    /// Whether a set is within the replica's own stable prefix; its digest is compared at the prefix's end only.
    private func isStable(_ reference: SetReference) -> Bool {
        guard let last = knowledge.stable?.vector[reference.id.client] else { return false }
        return reference.id.sequence < last.sequence
            || reference.id.sequence == last.sequence && reference.digest == last.digest
    }

    /// Whether a set that may be unknown is void because of a removal, or because a head says so.
    private func isListed(_ reference: SetReference) -> Bool {
        if let last = knowledge.removals[reference.id.client], reference.id.sequence > last { return true }
        return listed[reference] != nil
    }

    /// Whether a set needn't be waited for, given the sets that are integrated: it's one of them, stable, or void.
    package func isSettled(_ reference: SetReference, _ integrated: Set<SetReference>) -> Bool {
        integrated.contains(reference) || isStable(reference) || isVoid(reference)
    }

    /// The number up to which a set's client counts for whatever had seen this set; `nil` if that can't be told yet.
    package func sequence(seenBy reference: SetReference) -> UInt64? {
        var reference = reference
        while !isStable(reference) {
            guard let entry = entries[reference] else {
                guard isListed(reference) else { return nil }
                let removed = knowledge.removals[reference.id.client] ?? .max
                return min(listed[reference] ?? .max, removed)
            }
            guard void.contains(reference) else { break }
            guard let predecessor = entry.predecessor else { return 0 }
            reference = predecessor
        }
        return reference.id.sequence
    }

    /// A set's header as the fold has to read it: with what its author had seen of the sets that count.
    package func effective(_ header: SyncChangeSet.Header) -> SyncChangeSet.Header {
        var header = header
        for (client, seen) in header.seen {
            let sequence = sequence(seenBy: SetReference(client, seen)) ?? 0
            header.seen[client] = sequence == 0 ? nil : SeenSet(sequence, seen.digest)
        }
        return header
    }

    // MARK: Order

    /// The sets that are to be integrated, in the total order: all that count, and whose predecessor and seen sets are
    /// integrated or void.
    ///
    /// - Parameter unreadable: Sets that have to wait for an update of the app.
    /// - Returns: The sets.
    package func ready(except unreadable: Set<SetReference> = []) -> [LogEntry] {
        var ready: [LogEntry] = []
        var integrated: Set<SetReference> = []
        // Whatever a set had seen sorts before it.
        for entry in entries.values.sorted(by: { $0.position < $1.position }) where !void.contains(entry.reference) {
            guard !unreadable.contains(entry.reference),
                entry.predecessor.map({ isSettled($0, integrated) }) ?? true,
                entry.header.seen.allSatisfy({ client, seen in
                    client == entry.id.client || isSettled(SetReference(client, seen), integrated)
                })
            else { continue }
            ready.append(entry)
            integrated.insert(entry.reference)
        }
        return ready
    }

    /// The void sets as a head lists them.
    package var list: Set<VoidSet> {
        Set(void.map { VoidSet($0, lastSequence: sequence(seenBy: $0) ?? 0) })
    }
}
