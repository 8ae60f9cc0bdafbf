import ByteCoding
import Foundation
import RemoteStorage
import StoreChanges

/// What a client publishes of its change sets: how far it is, and where the sets are.
///
/// Small sets travel in the head itself. So one file brings a client's news.
struct SyncHead: Hashable, Sendable {
    var name: SyncHeadName
    /// The document's origin, which distinguishes the sets of a document from those of a former one.
    var origin: UUID
    /// The last sets whose effect is in the client's store, by client; the client's own among them.
    var seen: [ClientID: SeenSet]
    /// The files with the client's older sets, in order.
    var segments: [SyncSegment]
    /// The sets after the last segment.
    var tail: [SyncChangeSet]
    /// When the head was published, by the client's clock: for people, never compared.
    var published: Date

    private static let formatVersion = 1
    /// The maximum number of clients and of segments that a head names.
    private static let maximumNames = 65_536

    /// The numbers of the sets in the head itself; `nil` if the segments have more than all sets.
    private static func tailNumbers(after segments: [SyncSegment], upTo sequence: UInt64) -> Range<UInt64>? {
        let first = (segments.last?.last ?? 0) + 1
        return first <= sequence + 1 ? first..<sequence + 1 : nil
    }

    /// Reads a head.
    ///
    /// - Parameters:
    ///   - bytes: The file's content.
    ///   - name: Its name, with which the content must agree.
    ///   - path: Where it is, for errors.
    /// - Throws: ``StoreSyncError``.
    init(_ bytes: [UInt8], named name: SyncHeadName, at path: RemotePath) throws {
        var reader = FieldReader(bytes[...])
        guard reader.remaining >= 4 else { throw StoreSyncError.corrupt(path, "it is cut off") }
        let count = Int(reader.integer(UInt32.self))
        guard count <= reader.remaining else { throw StoreSyncError.corrupt(path, "it is cut off") }
        let values = try PropertyListValue.dictionary(in: reader.bytes(count), at: path)
        guard let version = values["formatVersion"]?.integer else {
            throw StoreSyncError.corrupt(path, "it has no format version")
        }
        guard version == Self.formatVersion else { throw StoreSyncError.newerFormat(path, version) }
        guard values["client"]?.string == name.client.rawValue, values["head"]?.integer == Int(name.number),
            values["sequence"]?.integer == Int(name.sequence),
            let origin = values["origin"]?.string.flatMap(UUID.init(uuidString:)),
            let seen = Self.seen(values["seen"]), let segments = Self.segments(values["segments"]),
            let published = values["published"]?.date
        else { throw StoreSyncError.corrupt(path, "it belongs to another client, or a value is missing") }
        let own = seen[ClientID(rawValue: name.client.rawValue)]?.sequence ?? 0
        guard Self.followOneAnother(segments), own == name.sequence,
            let numbers = Self.tailNumbers(after: segments, upTo: name.sequence)
        else { throw StoreSyncError.corrupt(path, "the change sets that it names don't follow one another") }
        (self.name, self.origin, self.seen, self.segments, self.published) = (name, origin, seen, segments, published)
        tail = try EncodedSets.decode(reader.slice(reader.remaining), numbers, of: name.client, at: path)
    }

    init(
        _ name: SyncHeadName,
        origin: UUID,
        seen: [ClientID: SeenSet],
        segments: [SyncSegment],
        tail: [SyncChangeSet]
    ) {
        self.name = name
        self.origin = origin
        self.seen = seen
        self.segments = segments
        self.tail = tail
        published = Date()
    }

    private static func followOneAnother(_ segments: [SyncSegment]) -> Bool {
        let expected = [1] + segments.map { $0.last + 1 }
        return zip(expected, segments).allSatisfy { $0 == $1.first }
    }

    private static func seen(_ value: PropertyListValue?) -> [ClientID: SeenSet]? {
        guard let list = value?.array, list.count <= maximumNames else { return nil }
        var seen: [ClientID: SeenSet] = [:]
        for value in list {
            guard let values = value.dictionary, let client = values["client"]?.string, !client.isEmpty,
                let sequence = values["sequence"]?.integer, sequence > 0, case .data(let digest)? = values["digest"],
                digest.count == SetDigest.byteCount,
                seen.updateValue(
                    SeenSet(UInt64(sequence), SetDigest(rawValue: Array(digest))),
                    forKey: ClientID(rawValue: client)
                ) == nil
            else { return nil }
        }
        return seen
    }

    private static func segments(_ value: PropertyListValue?) -> [SyncSegment]? {
        guard let list = value?.array, list.count <= maximumNames else { return nil }
        let segments = list.compactMap { $0.string.flatMap(SyncSegment.init) }
        return segments.count == list.count ? segments : nil
    }

    /// The file's content.
    var bytes: [UInt8] {
        let values = PropertyListValue.dictionary([
            "formatVersion": .integer(Self.formatVersion),
            "client": .string(name.client.rawValue),
            "sequence": .integer(Int(name.sequence)),
            "head": .integer(Int(name.number)),
            "origin": .string(origin.uuidString),
            "seen": .array(
                seen.sorted { $0.key < $1.key }.map { client, set in
                    .dictionary([
                        "client": .string(client.rawValue), "sequence": .integer(Int(set.sequence)),
                        "digest": .data(Data(set.digest.rawValue)),
                    ])
                }
            ),
            "segments": .array(segments.map { .string($0.name) }),
            "published": .date(published),
        ]).xml
        return UInt32(values.count).littleEndianBytes + values + EncodedSets.encode(tail.map(\.encoded))
    }
}
