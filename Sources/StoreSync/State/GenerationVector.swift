/// One upload of a client: its place in the order of the document's generations, and what tells it from any other.
struct UploadReference: Hashable, Sendable, Codable {
    /// One more than the highest generation that its writer had seen.
    var generation: Int
    /// A UUID.
    var upload: String

    /// The generations that there can be.
    ///
    /// Anybody may write a name into the storage. Up to here every program reads the number exactly, and one more is still
    /// a number.
    static let generations = 1...(1 << 53)
}

extension UploadReference {
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        generation = try values.decode(Int.self, forKey: .generation)
        upload = try values.decode(String.self, forKey: .upload)
        try decoder.require(Self.generations.contains(generation))
    }
}

extension Decoder {
    /// Refuses a value that no version of this program wrote.
    func require(_ isValid: Bool) throws {
        guard !isValid else { return }
        throw DecodingError.dataCorrupted(
            DecodingError.Context(codingPath: codingPath, debugDescription: "a generation out of range")
        )
    }
}

/// What a store contains: of each client, which of its uploads.
///
/// A bare number for each client would not do: an identity that lives twice (a copied state directory) makes two uploads
/// of one generation, and the second must not pass for the first. So the newest uploads are named; of what is older than
/// all of them a floor says that it's contained.
struct GenerationVector: Hashable, Sendable, Codable {
    /// What is contained of one client.
    struct Entry: Hashable, Sendable, Codable {
        /// The newest uploads that are contained, the newest first.
        var uploads: [UploadReference] = []
        /// Every generation up to this one is contained; 0 if that's unknown.
        var floor = 0

        static let floors = 0...UploadReference.generations.upperBound
    }

    private(set) var entries: [String: Entry] = [:]

    /// How many uploads of a client are named.
    static let namedUploads = 8

    /// Whether an upload of a client is contained.
    func contains(client: String, _ reference: UploadReference) -> Bool {
        guard let entry = entries[client] else { return false }
        return reference.generation <= entry.floor || entry.uploads.contains(reference)
    }

    /// The highest generation of a client that is contained.
    func highestGeneration(of client: String) -> Int? {
        entries[client].map { max($0.floor, $0.uploads.first?.generation ?? 0) }
    }

    /// Adds an upload to what is contained.
    mutating func insert(client: String, _ reference: UploadReference) {
        merge(client, Entry(uploads: [reference]))
    }

    /// What is contained in either.
    func merging(_ other: GenerationVector) -> GenerationVector {
        var union = self
        for (client, entry) in other.entries { union.merge(client, entry) }
        return union
    }

    /// What is contained of one client alone.
    func restricted(to client: String) -> GenerationVector {
        var part = GenerationVector()
        part.entries[client] = entries[client]
        return part
    }

    private mutating func merge(_ client: String, _ other: Entry) {
        let own = entries[client] ?? Entry()
        let floor = max(own.floor, other.floor)
        var uploads = Set(own.uploads + other.uploads).filter { $0.generation > floor }
            .sorted { ($0.generation, $0.upload) > ($1.generation, $1.upload) }
        var entry = Entry(uploads: [], floor: floor)
        if uploads.count > Self.namedUploads {
            // Two uploads of one generation come from an identity that lived twice; the floor must not cover half of them.
            let cut = uploads[Self.namedUploads].generation
            entry.floor = cut
            uploads.removeAll { $0.generation <= cut }
        }
        entry.uploads = uploads
        entries[client] = entry
    }
}

extension GenerationVector.Entry {
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        uploads = try values.decode([UploadReference].self, forKey: .uploads)
        floor = try values.decode(Int.self, forKey: .floor)
        try decoder.require(Self.floors.contains(floor))
    }
}

// MARK: - In manifests

extension UploadReference {
    /// Reads a reference from a manifest, which anybody may have written.
    init?(_ value: PropertyListValue) {
        guard let generation = value.dictionary?["generation"]?.integer, Self.generations.contains(generation),
            let upload = value.dictionary?["upload"]?.string
        else { return nil }
        self.init(generation: generation, upload: upload)
    }

    var propertyList: PropertyListValue {
        .dictionary(["generation": .integer(generation), "upload": .string(upload)])
    }
}

extension GenerationVector {
    private static let mostClients = 10_000

    /// Reads a vector from a manifest, which anybody may have written.
    init?(_ value: PropertyListValue) {
        guard let clients = value.dictionary, clients.count <= Self.mostClients else { return nil }
        for (client, value) in clients {
            guard let floor = value.dictionary?["floor"]?.integer, Entry.floors.contains(floor),
                let list = value.dictionary?["uploads"]?.array, list.count <= Self.namedUploads
            else { return nil }
            var entry = Entry(floor: floor)
            for item in list {
                guard let reference = UploadReference(item) else { return nil }
                entry.uploads.append(reference)
            }
            merge(client, entry)
        }
    }

    var propertyList: PropertyListValue {
        .dictionary(
            entries.mapValues { entry in
                .dictionary([
                    "floor": .integer(entry.floor),
                    "uploads": .array(entry.uploads.map(\.propertyList)),
                ])
            }
        )
    }
}
