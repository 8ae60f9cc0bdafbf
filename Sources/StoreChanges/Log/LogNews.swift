/// The beginning of the total order that every client has seen: what it needs to be undone isn't kept.
package struct StablePrefix: Hashable, Sendable {
    /// The position of its last set.
    package var position: SetPosition
    /// The last set of each client in it.
    package var vector: [ClientID: SeenSet]

    /// Creates a prefix.
    package init(_ position: SetPosition, _ vector: [ClientID: SeenSet]) {
        self.position = position
        self.vector = vector
    }
}

/// A set that doesn't count, as heads list it for replicas that never get its bytes.
package struct VoidSet: Hashable, Sendable {
    /// The set.
    package var set: SetReference
    /// The last set before it of the same client that counts; 0 for none.
    package var lastSequence: UInt64

    /// Creates an entry.
    package init(_ set: SetReference, lastSequence: UInt64) {
        self.set = set
        self.lastSequence = lastSequence
    }
}

/// What a client publishes of its log, besides the sets themselves.
package struct ClientHead: Hashable, Sendable {
    /// The client.
    package var client: ClientID
    /// Counts up with every head of the client.
    package var number: UInt64
    /// The client's last set; `nil` before its first one.
    package var last: SeenSet?
    /// The sets of other clients whose effect is in its store: each later set has seen at least these.
    package var seen: [ClientID: SeenSet]
    /// What is stable for the client; `nil` if nothing is.
    package var stable: StablePrefix?
    /// The sets that don't count, as far as the client knows.
    package var voids: Set<VoidSet>

    /// Creates a head.
    package init(_ client: ClientID, number: UInt64, last: SeenSet? = nil, seen: [ClientID: SeenSet] = [:]) {
        self.client = client
        self.number = number
        self.last = last
        self.seen = seen
        self.voids = []
    }

    /// All sets that the client's next set will have seen, its own included.
    var vector: [ClientID: SeenSet] {
        var vector = seen
        vector[client] = last
        return vector
    }
}

/// What a replica learns from the storage, besides sets.
package struct LogNews: Hashable, Sendable {
    /// Heads; of each client, the head with the highest number is remembered.
    package var heads: [ClientHead] = []
    /// Removed clients with the last set that counts, 0 for none; the highest of several is remembered.
    package var removals: [ClientID: UInt64] = [:]

    package init() {}
}

/// What a replica remembers of the storage, besides sets.
package struct LogKnowledge: Hashable, Sendable {
    package var heads: [ClientID: ClientHead] = [:]
    package var removals: [ClientID: UInt64] = [:]
    /// What is stable in this replica: it can't be undone any more.
    package var stable: StablePrefix?

    package init() {}

    /// Remembers news; older ones than are known change nothing.
    package mutating func remember(_ news: LogNews) {
        for head in news.heads where heads[head.client].map({ $0.number < head.number }) ?? true {
            heads[head.client] = head
        }
        for (client, sequence) in news.removals { removals[client] = max(removals[client] ?? 0, sequence) }
    }

    /// The prefixes of other clients that reach beyond this replica's own.
    var publishedPrefixes: [StablePrefix] {
        heads.values.compactMap(\.stable).filter { prefix in stable.map { $0.position < prefix.position } ?? true }
    }

    /// This replica's own prefix, and those of other clients that reach beyond it.
    var prefixes: [StablePrefix] { [stable].compactMap(\.self) + publishedPrefixes }
}
