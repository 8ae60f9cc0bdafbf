import StoreChanges

/// Which change sets of a client are superfluous on the remote.
enum LogPruning {
    /// The number of the last set that two baselines contain and that every client has seen; 0 if there is none.
    ///
    /// - Parameters:
    ///   - client: The client that captured the sets.
    ///   - own: This device, whose store contains all that its baselines do.
    ///   - baselines: The newest baselines.
    ///   - knowledge: What this device remembers of other clients.
    /// - Returns: The number.
    static func lastSuperfluous(
        of client: ClientID,
        for own: ClientID,
        in baselines: [SyncBaseline],
        _ knowledge: LogKnowledge
    ) -> UInt64 {
        let seen = knowledge.seen(of: client).filter { $0.key != own }.values
        return min(contained(of: client, in: baselines), seen.min() ?? .max)
    }

    /// The clients that haven't seen all sets of a client that two baselines contain.
    static func behind(_ client: ClientID, in baselines: [SyncBaseline], _ knowledge: LogKnowledge) -> [ClientID] {
        let last = contained(of: client, in: baselines)
        return knowledge.seen(of: client).filter { $0.value < last }.map(\.key)
    }

    /// Of the clients that haven't seen all sets of a client that two baselines contain, the client that has seen the fewest.
    static func furthestBehind(
        _ client: ClientID,
        in baselines: [SyncBaseline],
        _ knowledge: LogKnowledge
    ) -> ClientID? {
        let seen = knowledge.seen(of: client)
        return behind(client, in: baselines, knowledge).min { (seen[$0] ?? 0, $0) < (seen[$1] ?? 0, $1) }
    }

    /// Whether nothing of a removed client is needed any more.
    static func isSuperfluous(
        _ client: ClientID,
        for own: ClientID,
        in baselines: [SyncBaseline],
        _ knowledge: LogKnowledge
    ) -> Bool {
        guard let last = knowledge.removals[client] else { return false }
        return lastSuperfluous(of: client, for: own, in: baselines, knowledge) >= last
    }

    private static func contained(of client: ClientID, in baselines: [SyncBaseline]) -> UInt64 {
        guard baselines.count > 1 else { return 0 }
        return min(baselines[0].vector[client.rawValue] ?? 0, baselines[1].vector[client.rawValue] ?? 0)
    }
}

extension LogKnowledge {
    /// The number of the last set of a client that is in the store of each other client, as its head says; 0 for a client
    /// whose head is missing.
    fileprivate func seen(of client: ClientID) -> [ClientID: UInt64] {
        let named = Set(heads.keys).union(heads.values.flatMap { Array($0.seen.keys) })
        let others = named.filter { $0 != client && removals[$0] == nil }
        return Dictionary(uniqueKeysWithValues: others.map { ($0, heads[$0]?.seen[client]?.sequence ?? 0) })
    }
}
