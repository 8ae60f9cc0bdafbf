import ByteCoding
import RemoteStorage

/// The name of a client's head: `<client>-<sequence>-<number>-<unique>.recentsync`.
///
/// A listing of the names alone says which clients have published change sets that this device doesn't have.
struct SyncHeadName: Hashable, Sendable {
    var client: RemoteIdentifier
    /// The number of the client's last change set.
    var sequence: UInt64
    /// Counts up with every head of the client, and is never used twice.
    var number: UInt64
    /// 16 hexadecimal digits, so that two devices with one identity don't write the same file.
    var unique: String

    private static let suffix = ".recentsync"

    init(client: RemoteIdentifier, sequence: UInt64, number: UInt64, unique: String = SyncFileName.unique()) {
        self.client = client
        self.sequence = sequence
        self.number = number
        self.unique = unique
    }

    /// Reads a name; `nil` if it has another form.
    init?(_ name: String) {
        guard name.hasSuffix(Self.suffix) else { return nil }
        let parts = name.dropLast(Self.suffix.count).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count > 3, let sequence = SyncFileName.number(parts[parts.count - 3]),
            let number = SyncFileName.number(parts[parts.count - 2]),
            let client = try? RemoteIdentifier(parts.dropLast(3).joined(separator: "-"))
        else { return nil }
        self.init(client: client, sequence: sequence, number: number, unique: String(parts[parts.count - 1]))
        guard self.name == name, SyncFileName.isUnique(unique) else { return nil }
    }

    /// Whether another head of the client is newer; all copies of the client order their heads alike.
    func precedes(_ other: SyncHeadName) -> Bool { (number, unique) < (other.number, other.unique) }

    var name: String { "\(client)-\(sequence)-\(number)-\(unique)\(Self.suffix)" }
}

/// What the files of heads and segments have in common: names that no two of them share, and limits of their sizes.
enum SyncFileName {
    private static let digits = 16
    /// The maximum size of a segment, in bytes: any set that SQLite can store in a replica fits.
    static let maximumSegmentBytes = 1 << 30
    /// The maximum size of a head, in bytes: a property list of at most 4 MiB, and small sets.
    private static let maximumHeadBytes = 5 << 20

    /// The maximum size of a file, in bytes.
    static func maximumBytes(at path: RemotePath) -> Int {
        path.lastComponent.flatMap { SyncHeadName($0) } == nil ? maximumSegmentBytes : maximumHeadBytes
    }

    static func unique() -> String {
        (0..<digits / 2).map { _ in UInt8.random(in: .min ... .max) }.hexadecimal
    }

    /// Reads a number that any arithmetic leaves room for; `nil` if it is too great, or is no number.
    static func number(_ text: Substring) -> UInt64? { UInt64(text).flatMap { $0 < 1 << 62 ? $0 : nil } }

    static func isUnique(_ text: String) -> Bool {
        text.utf8.count == digits && [UInt8](hexadecimal: text.utf8)?.hexadecimal == text
    }
}
