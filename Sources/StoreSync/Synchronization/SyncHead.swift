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
    /// What the client has captured and seen.
    var content: ClientHead
    /// The number of the last set that was removed from the remote, because baselines contain it.
    var removed: UInt64
    /// The files with the client's older sets, in order.
    var segments: [SyncSegment]
    /// The sets after the last segment.
    var tail: [EncodedChangeSet]
    /// The newest baselines that the client knows.
    var baselines: [SyncBaseline]
    /// The client's state after its stable sets, by which replicas that differ are noticed.
    var fingerprint: SynchronizedStore.Fingerprint?
    /// The number of the last set that counts of each removed client, 0 for none.
    var removals: [String: UInt64]
    /// When the head was published, by the client's clock: for people, never compared.
    var published: Date

    private static let formatVersion = 1
    /// The maximum number of segments that a head names.
    private static let maximumSegments = 65_536

    /// Reads a head.
    ///
    /// - Parameters:
    ///   - bytes: The file's content.
    ///   - name: Its name, with which the content must agree.
    ///   - document: The document's origin, with which the content must agree, too.
    ///   - path: Where it is, for errors.
    /// - Throws: ``StoreSyncError``.
    init(_ bytes: [UInt8], named name: SyncHeadName, since document: UUID, at path: RemotePath) throws {
        var reader = FieldReader(bytes[...])
        guard reader.remaining >= 4 else { throw StoreSyncError.corrupt(path, "it is cut off") }
        let count = Int(reader.integer(UInt32.self))
        guard count <= reader.remaining else { throw StoreSyncError.corrupt(path, "it is cut off") }
        let values = try PropertyListValue.dictionary(in: reader.bytes(count), at: path)
        guard let version = values["formatVersion"]?.integer else {
            throw StoreSyncError.corrupt(path, "it has no format version")
        }
        guard version == Self.formatVersion else { throw StoreSyncError.newerFormat(path, version) }
        let removed = values["removed"] == nil ? 0 : values["removed"]?.integer
        let removals = values["removals"] == nil ? [:] : SyncVector.read(values["removals"], from: 0)
        let baselines = (values["baselines"]?.array ?? []).map { SyncBaseline($0) }
        guard let origin = values["origin"]?.string.flatMap(UUID.init(uuidString:)), let removed, removed >= 0,
            let removals,
            baselines.allSatisfy({ $0 != nil }), let segments = Self.segments(values["segments"]),
            let published = values["published"]?.date,
            case .data(let content)? = values["head"]
        else { throw StoreSyncError.corrupt(path, "a value is missing") }
        guard origin == document else {
            throw StoreSyncError.corrupt(path, "it belongs to a former document of that name")
        }
        (self.name, self.origin, self.segments, self.published) = (name, origin, segments, published)
        self.removed = UInt64(removed)
        self.removals = removals
        if let value = values["fingerprint"] {
            guard let fingerprint = SynchronizedStore.Fingerprint(value) else {
                throw StoreSyncError.corrupt(path, "its fingerprint can't be read")
            }
            self.fingerprint = fingerprint
        }
        self.baselines = SyncBaseline.newest(of: baselines.compactMap(\.self))
        do {
            self.content = try ClientHead(decoding: Array(content))
        } catch let error as StoreChangesError {
            throw StoreSyncError(error, at: path)
        }
        let isOfThatName =
            self.content.client.rawValue == name.client.rawValue && self.content.number == name.number
            && self.content.last?.sequence ?? 0 == name.sequence
        guard isOfThatName, let numbers = Self.tailNumbers(after: self.removed, segments, upTo: name.sequence)
        else {
            throw StoreSyncError.corrupt(path, "the change sets that it names aren't those of its name")
        }
        tail = try EncodedSets.decode(reader.slice(reader.remaining), numbers, of: name.client, at: path)
    }

    init(
        _ name: SyncHeadName,
        _ publication: SynchronizedStore.Publication,
        _ memory: SynchronizationMemory,
        tail: [EncodedChangeSet],
        published: Date
    ) {
        self.name = name
        content = publication.head
        fingerprint = publication.fingerprint
        origin = memory.origin
        removed = memory.removed
        segments = memory.segments
        baselines = memory.baselines
        removals = memory.removals
        self.tail = tail
        self.published = published
    }

    /// The numbers of the sets in the head itself; `nil` if the segments don't follow one another up to them.
    private static func tailNumbers(
        after removed: UInt64,
        _ segments: [SyncSegment],
        upTo sequence: UInt64
    ) -> Range<UInt64>? {
        var next = removed + 1
        for segment in segments {
            guard segment.first == next else { return nil }
            next = segment.last + 1
        }
        return next <= sequence + 1 ? next..<sequence + 1 : nil
    }

    private static func segments(_ value: PropertyListValue?) -> [SyncSegment]? {
        guard let list = value?.array, list.count <= maximumSegments else { return nil }
        let segments = list.compactMap { $0.string.flatMap { SyncSegment($0) } }
        return segments.count == list.count ? segments : nil
    }

    /// Whether the head is within the limits of what devices read.
    var isReadable: Bool { segments.count <= Self.maximumSegments && (try? PropertyListSource(xml)) != nil }

    /// The file's content.
    var bytes: [UInt8] {
        let xml = xml
        return UInt32(xml.count).littleEndianBytes + xml + EncodedSets.encode(tail)
    }

    private var xml: [UInt8] {
        var values: [String: PropertyListValue] = [
            "formatVersion": .integer(Self.formatVersion),
            "origin": .string(origin.uuidString),
            "head": .data(Data(content.encoded)),
            "segments": .array(segments.map { .string($0.name) }),
            "published": .date(published),
        ]
        if removed > 0 { values["removed"] = .integer(Int(removed)) }
        if !baselines.isEmpty { values["baselines"] = .array(baselines.map(\.propertyList)) }
        if let fingerprint { values["fingerprint"] = fingerprint.propertyList }
        if !removals.isEmpty { values["removals"] = SyncVector.propertyList(removals) }
        return PropertyListValue.dictionary(values).xml
    }
}

extension SynchronizedStore.Fingerprint {
    private static let digestBytes = 32

    /// Reads a fingerprint; `nil` if it has another form.
    fileprivate init?(_ value: PropertyListValue) {
        guard case .data(let data) = value, data.count == 2 * Self.digestBytes else { return nil }
        self.init(state: Array(data.prefix(Self.digestBytes)), schema: Array(data.suffix(Self.digestBytes)))
    }

    fileprivate var propertyList: PropertyListValue { .data(Data(state + schema)) }
}
