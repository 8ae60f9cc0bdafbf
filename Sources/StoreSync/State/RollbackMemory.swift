/// What this device has opened of a document, so that the storage can't put an older state in its place unnoticed.
struct RollbackMemory: Hashable, Sendable, Codable {
    /// The highest generation that was opened, of each client.
    private(set) var opened: [String: Int] = [:]
    /// The highest generation that was contained in something that was opened, of each client: older than the newest.
    private(set) var superseded: [String: Int] = [:]

    /// The highest generation in it.
    var highestGeneration: Int { max(opened.values.max() ?? 0, superseded.values.max() ?? 0) }

    /// Whether a store is older than one that was opened.
    func isRolledBack(client: String, generation: Int) -> Bool {
        generation < opened[client, default: 0] || generation <= superseded[client, default: 0]
    }

    /// A store was opened.
    mutating func open(client: String, _ reference: UploadReference, includes: GenerationVector) {
        opened[client] = max(opened[client, default: 0], reference.generation)
        for (other, entry) in includes.entries {
            // Of its own client, everything before this one.
            let contained = entry.uploads.map(\.generation).filter { other != client || $0 < reference.generation }
            let floor = other == client ? min(entry.floor, reference.generation - 1) : entry.floor
            superseded[other] = max(superseded[other, default: 0], floor, contained.max() ?? 0)
        }
    }

    /// A store was opened although it's older: what is remembered now is this one and nothing else.
    mutating func accept(client: String, _ reference: UploadReference, includes: GenerationVector) {
        self = RollbackMemory()
        open(client: client, reference, includes: includes)
    }
}

extension RollbackMemory {
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        opened = try values.decode([String: Int].self, forKey: .opened)
        superseded = try values.decode([String: Int].self, forKey: .superseded)
        let numbers = [opened, superseded].flatMap(\.values)
        try decoder.require(numbers.allSatisfy(GenerationVector.Entry.floors.contains))
    }
}
