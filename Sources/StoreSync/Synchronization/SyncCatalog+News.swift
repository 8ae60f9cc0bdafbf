import RemoteStorage
import StoreChanges

extension SyncCatalog {
    /// What other clients have published.
    struct News: Sendable {
        var sets: [ReceivedSet] = []
        /// The heads that name the sets.
        var heads: [SyncHead] = []
        /// The names of all heads that the remote lists.
        var listed: Set<String> = []
        /// The names of this client's heads among them.
        var own: [SyncHeadName] = []
        /// Clients that have published more than the remote shows now.
        var rolledBack: [RemoteIdentifier] = []
        /// The number of the last set that counts of each client whose removal this device has noted.
        var removals: [String: UInt64] = [:]
        /// Clients whose sets this device lacks, although they were removed because baselines contain them.
        var gaps: [RemoteIdentifier] = []
        /// Warnings about files that can't be used, in full sentences.
        var warnings: [String] = []
        /// The clients whose files these are.
        var unreadable: Set<RemoteIdentifier> = []
        /// Clients whose heads name sets that can't be read.
        var incomplete: Set<RemoteIdentifier> = []
        /// Whether some of the sets are only in a baseline.
        var hasSetsFromBaselines = false

        /// What the heads say of the log, and what this device had noted.
        var log: LogNews {
            var news = LogNews()
            news.heads = heads.map(\.content)
            let removals = heads.reduce(removals) { $0.merging($1.removals, uniquingKeysWith: max) }
            for (client, sequence) in removals { news.removals[ClientID(rawValue: client)] = sequence }
            return news
        }

        /// Returns the clients whose sets this device lacks, although they were removed because baselines contain them.
        func gaps(besides known: [ClientID: SeenSet], _ memory: SynchronizationMemory) -> [RemoteIdentifier] {
            let ofHeads = heads.filter { $0.removed > known[$0.content.client]?.sequence ?? 0 }.map(\.name.client)
            // A removed client's head goes once baselines contain its sets. Then only the note says how many sets it had, as it
            // does if the storage was put back to an older head.
            let baseline = SyncBaseline.newest(of: memory.baselines + heads.flatMap(\.baselines)).first
            let ofNotes = log.removals.filter { client, last in
                last > known[client]?.sequence ?? 0 && last <= baseline?.vector[client.rawValue] ?? 0
                    && !listed.compactMap { SyncHeadName($0) }
                        .contains { $0.client.rawValue == client.rawValue && $0.sequence >= last }
            }
            return ofHeads + ofNotes.keys.compactMap { try? RemoteIdentifier($0.rawValue) }.sorted()
        }
    }
}
