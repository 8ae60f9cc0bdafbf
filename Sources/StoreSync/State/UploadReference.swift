/// An upload of a client: its number among the document's generations, and its unique identifier.
struct UploadReference: Hashable, Sendable, Codable {
    /// One more than the highest generation that its writer had seen.
    var generation: Int
    /// A UUID.
    var upload: String

    /// The valid generations.
    ///
    /// An attacker may write any name into the storage. Every program reads numbers up to this limit exactly, and the
    /// next number doesn't overflow.
    static let generations = 1...(1 << 53)
}

extension UploadReference {
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        generation = try values.decode(Int.self, forKey: .generation)
        upload = try values.decode(String.self, forKey: .upload)
        guard Self.generations.contains(generation) else { throw decoder.invalidValue }
    }
}

extension Decoder {
    /// The error of a value that no version of this program wrote.
    var invalidValue: DecodingError {
        .dataCorrupted(DecodingError.Context(codingPath: codingPath, debugDescription: "a value out of range"))
    }
}

// MARK: - In manifests

extension UploadReference {
    /// Reads a reference from a manifest, which is untrusted.
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
