import Foundation
import RemoteStorage

/// The name of a client's upload: its folder is `<generation>-<upload>`, its manifest
/// `manifest-<generation>-<upload>.plist`.
struct UploadName: Hashable, Sendable, CustomStringConvertible {
    var client: RemoteIdentifier
    var generation: Int
    /// A UUID, in upper case.
    var upload: String

    private static let prefix = "manifest-"
    private static let suffix = ".plist"
}

extension UploadName {
    init(client: RemoteIdentifier, _ reference: UploadReference) {
        self.init(client: client, generation: reference.generation, upload: reference.upload)
    }

    /// Reads the name of an upload's folder; `nil` for anything else, such as the conflict copy of a synced folder.
    init?(client: RemoteIdentifier, directoryName name: String) {
        let parts = name.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let generation = Int(parts[0]),
            UploadReference.generations.contains(generation), String(generation) == parts[0],
            UUID(uuidString: String(parts[1]))?.uuidString == String(parts[1])
        else { return nil }
        self.init(client: client, generation: generation, upload: String(parts[1]))
    }

    /// Reads the name of a manifest; `nil` for anything else.
    init?(client: RemoteIdentifier, manifestName name: String) {
        guard name.hasPrefix(Self.prefix), name.hasSuffix(Self.suffix) else { return nil }
        self.init(
            client: client,
            directoryName: String(name.dropFirst(Self.prefix.count).dropLast(Self.suffix.count))
        )
    }

    /// Reads the name of a listed manifest or folder; `nil` for anything else.
    init?(client: RemoteIdentifier, listed item: RemoteItem) {
        switch item.kind {
        case .file: self.init(client: client, manifestName: item.name)
        case .directory: self.init(client: client, directoryName: item.name)
        case .other: return nil
        }
    }

    var directoryName: String { "\(generation)-\(upload)" }
    var manifestName: String { Self.prefix + directoryName + Self.suffix }
    var reference: UploadReference { UploadReference(generation: generation, upload: upload) }
    /// The name as the beginning of a sentence.
    var atStart: String { "Generation \(generation) of client \(client)" }

    var description: String { "generation \(generation) of client \(client)" }
}

extension UploadName: Comparable {
    /// Older generations come first.
    static func < (left: UploadName, right: UploadName) -> Bool {
        (left.generation, left.client, left.upload) < (right.generation, right.client, right.upload)
    }
}

/// The form in which manifests and this device's memory name an upload: `<client>/<generation>-<upload>`.
extension UploadName: Codable {
    var identifier: String { "\(client)/\(directoryName)" }

    /// Reads an ``identifier``; `nil` for anything else.
    init?(identifier: String) {
        let parts = identifier.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let client = try? RemoteIdentifier(parts[0]) else { return nil }
        self.init(client: client, directoryName: parts[1])
    }

    init(from decoder: any Decoder) throws {
        let identifier = try decoder.singleValueContainer().decode(String.self)
        guard let name = UploadName(identifier: identifier) else { throw decoder.invalidValue }
        self = name
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(identifier)
    }
}
