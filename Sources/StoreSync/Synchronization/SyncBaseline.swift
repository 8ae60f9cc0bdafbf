import Foundation
import RemoteStorage
import StoreChanges

/// A store with which devices can begin: a whole upload, whose applied sets are a checkpoint of its replica.
///
/// The change sets that two baselines contain can go, once every client has seen them.
struct SyncBaseline: Hashable, Sendable, Codable {
    /// The upload.
    var upload: UploadName
    /// The number of the last change set of each client that the store contains.
    var vector: [String: UInt64]

    /// How many change sets the store contains.
    var total: UInt64 { SyncVector.total(vector.values) }

    /// Whether the sets up to a number of each client, together with others, are all that the store contains.
    func isContained(in integrated: [ClientID: UInt64], and others: [ReceivedSet]) -> Bool {
        let others = Set(others.map(\.header.id))
        return vector.allSatisfy { name, last in
            let client = ClientID(rawValue: name)
            var present = integrated[client] ?? 0
            while present < last, others.contains(SetID(client, present + 1)) { present += 1 }
            return present >= last
        }
    }

    /// The newest two of several baselines, the newest first.
    static func newest(of baselines: some Sequence<SyncBaseline>) -> [SyncBaseline] {
        Array(Set(baselines).sorted { ($0.total, $0.upload.identifier) > ($1.total, $1.upload.identifier) }.prefix(2))
    }
}

extension SyncBaseline {
    /// Reads an entry of a head; `nil` if it has another form.
    init?(_ value: PropertyListValue) {
        guard let upload = value.dictionary?["upload"]?.string.flatMap(UploadName.init(identifier:)),
            let vector = SyncVector.read(value.dictionary?["vector"])
        else { return nil }
        self.init(upload: upload, vector: vector)
    }

    var propertyList: PropertyListValue {
        .dictionary(["upload": .string(upload.identifier), "vector": SyncVector.propertyList(vector)])
    }
}

/// The number of the last change set of each client, in a property list.
enum SyncVector {
    /// The limit of a sum, which leaves room for any arithmetic: the numbers may come from anyone.
    private static let maximumTotal: UInt64 = 1 << 62

    /// The sum of numbers of change sets, at most a limit.
    static func total(_ numbers: some Sequence<UInt64>) -> UInt64 {
        numbers.reduce(0) { min($0 + min($1, maximumTotal), maximumTotal) }
    }

    /// Reads a vector; `nil` if it has another form.
    static func read(_ value: PropertyListValue?, from least: Int = 1) -> [String: UInt64]? {
        guard let entries = value?.dictionary else { return nil }
        var vector: [String: UInt64] = [:]
        for (client, number) in entries {
            guard (try? RemoteIdentifier(client)) != nil, let number = number.integer, number >= least else {
                return nil
            }
            vector[client] = UInt64(number)
        }
        return vector
    }

    static func propertyList(_ vector: [String: UInt64]) -> PropertyListValue {
        .dictionary(vector.mapValues { .integer(Int(clamping: $0)) })
    }
}

/// What an upload is that is a baseline: the manifest's entry.
struct SynchronizedContent: Hashable, Sendable {
    /// The document's origin.
    var origin: UUID
    /// The number of the last change set of each client that the store contains.
    var vector: [String: UInt64]

    init(origin: UUID, vector: [String: UInt64]) {
        (self.origin, self.vector) = (origin, vector)
    }

    /// Reads the entry; `nil` if it has another form.
    init?(_ value: PropertyListValue) {
        guard let origin = value.dictionary?["origin"]?.string.flatMap(UUID.init(uuidString:)),
            let vector = SyncVector.read(value.dictionary?["vector"])
        else { return nil }
        self.init(origin: origin, vector: vector)
    }

    var propertyList: PropertyListValue {
        .dictionary(["origin": .string(origin.uuidString), "vector": SyncVector.propertyList(vector)])
    }
}

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
