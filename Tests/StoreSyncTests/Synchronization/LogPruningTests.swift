import Foundation
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Superfluous change sets")
struct LogPruningTests {
    private let own = ClientID(rawValue: "own")

    /// What a device knows whose other clients have seen its sets up to these numbers.
    private func knowledge(_ seen: [String: UInt64]) -> LogKnowledge {
        var knowledge = LogKnowledge()
        for (name, sequence) in seen {
            let client = ClientID(rawValue: name)
            let seen = [own: SeenSet(sequence, .none)]
            knowledge.heads[client] = ClientHead(client, number: 1, seen: seen)
        }
        return knowledge
    }

    private func baseline(upTo sequence: UInt64) throws -> SyncBaseline {
        let name = UploadName(client: try RemoteIdentifier("own"), generation: 1, upload: UUID().uuidString)
        return SyncBaseline(upload: name, vector: ["own": sequence])
    }

    @Test("The client for which sets are kept lacks sets that two baselines contain, and is never a current client")
    func furthestBehind() throws {
        let baselines = [try baseline(upTo: 9), try baseline(upTo: 7)]
        let seen: [String: UInt64] = ["current": 7, "late": 5, "later": 3]
        #expect(LogPruning.furthestBehind(own, in: baselines, knowledge(seen))?.rawValue == "later")
        #expect(LogPruning.furthestBehind(own, in: baselines, knowledge(["current": 7, "newest": 12])) == nil)
        #expect(LogPruning.furthestBehind(own, in: [baselines[0]], knowledge(seen)) == nil)
    }
}
