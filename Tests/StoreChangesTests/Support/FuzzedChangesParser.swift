@testable import StoreChanges

/// The parsers of change sets that `Tests/Fuzz` fuzzes, which shares this file.
///
/// The inputs that fuzzing finds are kept in `Resources/Corpus`, and the tests parse them again.
enum FuzzedChangesParser: String, CaseIterable, Sendable {
    case changeSet, changes, schema

    /// Parses `bytes`, which may be anything.
    ///
    /// It may throw a typed error, but must neither crash nor accept a second form of what it parses.
    func parse(_ bytes: [UInt8]) {
        do {
            switch self {
            case .changeSet: try Self.check(bytes)
            case .changes: try Self.check(Self.header + bytes)
            case .schema:
                let description = try SchemaDescription(decoding: bytes)
                precondition(description.encoded == bytes && description.isCompatible(with: description))
            }
        } catch {
            precondition(error is StoreChangesError, "\(error)")
        }
    }

    private static func check(_ bytes: [UInt8]) throws {
        let set = try SyncChangeSet(decoding: bytes)
        precondition(set.encoded == bytes)
        let header = try SyncChangeSet.Header(decoding: set.header.encoded)
        precondition(header == set.header)
    }

    /// The beginning of a set, after which its changes follow.
    private static let header: [UInt8] = {
        let header = SyncChangeSet.Header(
            id: SetID(ClientID(rawValue: "a"), 1),
            predecessor: .none,
            stamp: Stamp(rawValue: 1),
            seen: [:],
            schema: SchemaVersion(1, .none)
        )
        return Array(header.encoded.dropLast())
    }()
}
