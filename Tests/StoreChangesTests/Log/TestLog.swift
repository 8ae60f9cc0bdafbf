import StoreChanges

/// Sets without changes, chained by their digests as clients chain them.
enum TestLog {
    /// Creates a set.
    ///
    /// - Parameters:
    ///   - client: The client.
    ///   - stamp: The stamp; two copies of a device have different ones here.
    ///   - previous: The client's previous set.
    ///   - seen: The last sets of other clients that the set had seen.
    /// - Returns: The set.
    static func set(
        _ client: String,
        at stamp: UInt64,
        after previous: LogEntry? = nil,
        seeing seen: LogEntry...
    ) -> LogEntry {
        let header = SyncChangeSet.Header(
            id: SetID(ClientID(rawValue: client), (previous?.header.id.sequence ?? 0) + 1),
            predecessor: previous?.digest ?? .none,
            stamp: Stamp(rawValue: stamp),
            seen: vector(seen),
            schema: SchemaVersion(0, .none)
        )
        return LogEntry(SyncChangeSet(header, []))
    }

    /// The vector of some sets.
    static func vector(_ entries: [LogEntry]) -> [ClientID: SeenSet] {
        Dictionary(
            uniqueKeysWithValues: entries.map { ($0.header.id.client, SeenSet($0.header.id.sequence, $0.digest)) }
        )
    }

    /// A head that has seen sets, the last one of its own client among them.
    static func head(_ client: String, seeing seen: LogEntry...) -> ClientHead {
        let client = ClientID(rawValue: client)
        let vector = vector(seen)
        return ClientHead(client, number: 1, last: vector[client], seen: vector.filter { $0.key != client })
    }

    /// The prefix that ends with the last of these sets, each the last one of its client.
    static func prefix(_ last: LogEntry...) -> StablePrefix {
        StablePrefix(last.map(\.position).max() ?? SetPosition(Stamp(rawValue: 0), last[0].header.id), vector(last))
    }
}
