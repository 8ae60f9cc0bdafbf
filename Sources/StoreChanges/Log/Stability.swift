extension SetJudgement {
    /// Computes the longest stable prefix: every set in it is in what the head of every client says that it has seen, and
    /// every known set beyond it has seen all of it.
    ///
    /// Without the second condition a set that is still on its way, captured before its author's last head, could depend on
    /// what was trimmed. Clients are known by their heads, and by what heads and sets have seen.
    ///
    /// - Parameters:
    ///   - integrated: The integrated sets beyond the former prefix, in the total order.
    ///   - client: This replica's client.
    ///   - storeSeen: What this replica's next set will have seen, its own sets included.
    /// - Returns: The prefix; the former one if no more is stable, or if a set is missing that a head or the note of a
    ///   removal names.
    package func stablePrefix(
        of integrated: [LogEntry],
        for client: ClientID,
        storeSeen: [ClientID: SeenSet]
    ) -> StablePrefix? {
        let references = Set(integrated.map(\.reference))
        guard hasAll(references), let vectors = clientVectors(client, storeSeen) else { return knowledge.stable }
        let order = PrefixOrder(integrated)
        var end = integrated.count
        for vector in vectors { end = min(end, order.firstUnseen(by: vector)) }
        for entry in waiting(references) { end = min(end, order.firstUnseen(by: vector(of: entry))) }
        var index = integrated.count - 1
        while index >= end {
            end = min(end, order.firstUnseen(by: vector(of: integrated[index])))
            index -= 1
        }
        guard end > 0 else { return knowledge.stable }
        var vector = knowledge.stable?.vector ?? [:]
        for entry in integrated.prefix(end) {
            vector[entry.id.client] = SeenSet(entry.id.sequence, entry.digest)
        }
        return StablePrefix(integrated[end - 1].position, vector)
    }

    /// Whether all sets are integrated that heads and notes of removals name.
    private func hasAll(_ integrated: Set<SetReference>) -> Bool {
        for head in knowledge.heads.values {
            for (client, seen) in head.vector where !isSettled(SetReference(client, seen), integrated) { return false }
        }
        return knowledge.removals.allSatisfy { client, last in
            last == 0 || last <= knowledge.stable?.vector[client]?.sequence ?? 0
                || integrated.contains { $0.id == SetID(client, last) }
                || void.contains { $0.id == SetID(client, last) }
        }
    }

    /// What the next set of each client will have seen; `nil` if a client's head is missing.
    private func clientVectors(_ client: ClientID, _ storeSeen: [ClientID: SeenSet]) -> [[ClientID: UInt64]]? {
        var clients = Set(knowledge.heads.keys).union(storeSeen.keys)
        for head in knowledge.heads.values { clients.formUnion(head.seen.keys) }
        for entry in entries.values { clients.formUnion(Array(entry.header.seen.keys) + [entry.id.client]) }
        if let stable = knowledge.stable { clients.formUnion(stable.vector.keys) }
        var vectors = [effective(storeSeen)]
        for other in clients where other != client && knowledge.removals[other] == nil {
            guard let head = knowledge.heads[other] else { return nil }
            vectors.append(effective(head.vector))
        }
        return vectors
    }

    private func effective(_ seen: [ClientID: SeenSet]) -> [ClientID: UInt64] {
        Dictionary(uniqueKeysWithValues: seen.map { ($0, sequence(seenBy: SetReference($0, $1)) ?? 0) })
    }

    /// What a set had seen, itself included.
    private func vector(of entry: LogEntry) -> [ClientID: UInt64] {
        var vector = effective(entry.header.seen)
        vector[entry.id.client] = entry.id.sequence
        return vector
    }

    /// The known sets that count and aren't ready.
    private func waiting(_ integrated: Set<SetReference>) -> [LogEntry] {
        entries.values.filter { !integrated.contains($0.reference) && !void.contains($0.reference) }
    }
}

/// The integrated sets of each client, by which unseen ones are found fast.
private struct PrefixOrder {
    private var sets: [ClientID: [(sequence: UInt64, index: Int)]] = [:]
    private let count: Int

    init(_ entries: [LogEntry]) {
        count = entries.count
        for (index, entry) in entries.enumerated() {
            sets[entry.id.client, default: []].append((entry.id.sequence, index))
        }
    }

    /// The index of the first set that isn't in a vector; the number of sets if all are.
    func firstUnseen(by vector: [ClientID: UInt64]) -> Int {
        var first = count
        for (client, sets) in sets {
            let seen = vector[client] ?? 0
            var (low, high) = (0, sets.count)
            while low < high {
                let middle = (low + high) / 2
                if sets[middle].sequence <= seen { low = middle + 1 } else { high = middle }
            }
            if low < sets.count { first = min(first, sets[low].index) }
        }
        return first
    }
}
