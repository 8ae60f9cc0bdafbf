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

/// The number of the last change set of each client: its form in a property list, and the sum.
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
