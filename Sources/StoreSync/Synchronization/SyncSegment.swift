import ByteCoding
import RemoteStorage
import StoreChanges

/// A file with change sets of a client that no longer fit its head: `<first>-<last>-<unique>.syncchg`.
struct SyncSegment: Hashable, Sendable, Codable {
    /// The number of the first set.
    var first: UInt64
    /// The number of the last set.
    var last: UInt64
    var unique: String

    private static let suffix = ".syncchg"
    /// The size up to which several sets are in one file, in bytes: reading a file takes several times its size of memory.
    static let usualBytes = 4 << 20

    init(_ numbers: ClosedRange<UInt64>, unique: String = SyncFileName.unique()) {
        first = numbers.lowerBound
        last = numbers.upperBound
        self.unique = unique
    }

    /// Reads a name; `nil` if it has another form.
    init?(_ name: String) {
        guard name.hasSuffix(Self.suffix) else { return nil }
        let parts = name.dropLast(Self.suffix.count).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, let first = SyncFileName.number(parts[0]), let last = SyncFileName.number(parts[1]),
            0 < first, first <= last
        else { return nil }
        self.init(first...last, unique: String(parts[2]))
        guard self.name == name, SyncFileName.isUnique(unique) else { return nil }
    }

    /// The numbers of the sets.
    var numbers: ClosedRange<UInt64> { first...last }

    var name: String { "\(first)-\(last)-\(unique)\(Self.suffix)" }

    /// Adds to the error of a damaged file how it's written again.
    static func writtenAgain(by client: RemoteIdentifier, _ error: StoreSyncError) -> StoreSyncError {
        StoreSyncError(error.code, "\(error.message) If this lasts, \(remedy(by: client))", cause: error)
    }

    /// How other devices get the edits in a client's file that is missing or damaged.
    static func remedy(by client: RemoteIdentifier) -> String {
        """
        run storesync vacuum on client \(client)'s device, which writes it again. If that device is lost, run it on a \
        device that has these edits. The others get them after a day, or at once with --rebuild.
        """
    }

    /// The error that a client's file can be read, but isn't what another file names.
    static func damaged(_ path: RemotePath, _ reason: String, by client: RemoteIdentifier) -> StoreSyncError {
        writtenAgain(by: client, StoreSyncError(.corrupt, "\(path) on the remote is damaged: \(reason)."))
    }
}

/// Change sets of a client that follow one another, as their neighbours know them.
struct SetRun {
    /// What the first set names as its predecessor.
    let predecessor: SetDigest
    /// What the set after the last one names.
    let last: SetDigest

    init?(_ sets: [EncodedChangeSet]) {
        guard let first = sets.first, let last = sets.last else { return nil }
        (predecessor, self.last) = (first.header.predecessor, last.digest)
    }
}

/// Encoded change sets in a file, each after its size in 8 bytes.
enum EncodedSets {
    static func encode(_ sets: [EncodedChangeSet]) -> [UInt8] {
        sets.reduce(into: []) { bytes, set in
            bytes += UInt64(set.encoded.count).littleEndianBytes
            bytes += set.encoded
        }
    }

    /// Reads the sets of a client that follow one another.
    ///
    /// - Parameters:
    ///   - bytes: The file's content, or the end of it.
    ///   - numbers: The numbers of the sets.
    ///   - client: Their client.
    ///   - path: The file, for errors.
    /// - Returns: The sets.
    /// - Throws: ``StoreSyncError``.
    static func decode(
        _ bytes: ArraySlice<UInt8>,
        _ numbers: Range<UInt64>,
        of client: RemoteIdentifier,
        at path: RemotePath
    ) throws -> [EncodedChangeSet] {
        var reader = FieldReader(bytes)
        let id = ClientID(rawValue: client.rawValue)
        var sets: [EncodedChangeSet] = []
        var predecessor: SetDigest?
        for number in numbers {
            guard reader.remaining >= 8 else { throw StoreSyncError.corrupt(path, "change sets are missing") }
            let count = reader.integer(UInt64.self)
            guard count <= UInt64(reader.remaining) else {
                throw StoreSyncError.corrupt(path, "a change set is cut off")
            }
            let encoded = reader.bytes(Int(count))
            let set = try set(encoded, at: path)
            guard set.header.id == SetID(id, number), predecessor.map({ $0 == set.header.predecessor }) ?? true else {
                throw StoreSyncError.corrupt(path, "its change sets don't follow one another")
            }
            predecessor = set.digest
            sets.append(set)
        }
        guard reader.remaining == 0 else { throw StoreSyncError.corrupt(path, "it has bytes after its end") }
        return sets
    }

    private static func set(_ bytes: [UInt8], at path: RemotePath) throws -> EncodedChangeSet {
        do {
            return try EncodedChangeSet(decoding: bytes)
        } catch let error as StoreChangesError {
            throw StoreSyncError(error, at: path)
        }
    }
}
