import Foundation
public import SyncCryptography

/// What one client's `Information/Keychain/<client>.ticdsync` holds: the synchronizable items as this client knows them.
///
/// Each client writes its own file alone and reads all of them, sealed by the application's key:
///
/// ```swift
/// var files: [String: KeychainFile] = [:]
/// for (client, sealed) in downloaded {
///     files[client] = try KeychainFile(opening: sealed, with: key, application: "org.example.notes", client: client)
/// }
/// if let next = try await keychain.merge(files, as: "laptop", registered: clients) {
///     upload(next.sealed(with: key, application: "org.example.notes", client: "laptop"))
/// }
/// ```
///
/// The article <doc:SynchronizableItems> says what is in it, byte by byte.
public struct KeychainFile: Hashable, Sendable {
    /// How many bytes of content a file may have.
    public static let mostBytes =
        64 + mostReplicas * 24 + KeychainLimits.tombstones * 64 + KeychainLimits.items * KeychainLimits.secretBytes
        + (KeychainLimits.items + KeychainLimits.tombstones) * 3 * KeychainLimits.attributeBytes

    /// How many bytes a sealed file may have.
    package static let mostSealedBytes = mostBytes + mostBytes >> 10

    /// How many replicas a file may know of.
    static let mostReplicas = 1 << 16

    /// Who wrote it, in which life.
    let replica: UUID
    /// Tells it from every other file of the same client.
    let publication: UUID
    /// Of each replica, up to which counter its edits are contained.
    let seen: [UUID: UInt64]
    /// Items and tombstones.
    let entries: [ItemKey: ItemEntry]

    init(replica: UUID, publication: UUID, seen: [UUID: UInt64], entries: [ItemKey: ItemEntry]) {
        self.replica = replica
        self.publication = publication
        self.seen = seen
        self.entries = entries
    }

    /// Whether an edit is contained.
    func hasSeen(_ stamp: Stamp) -> Bool { stamp.counter <= seen[stamp.replica, default: 0] }

    /// Whether publishing the other in this one's place would tell nobody anything.
    func saysTheSame(as other: KeychainFile) -> Bool {
        replica == other.replica && seen == other.seen && entries == other.entries
    }

    /// Opens a client's file.
    ///
    /// - Parameters:
    ///   - sealed: The file, as it was downloaded.
    ///   - key: The application's key.
    ///   - application: The application's identifier.
    ///   - client: Whose file it must be.
    /// - Throws: `CryptographyError` if it wasn't sealed for its place; ``KeychainError/Code/corrupt`` or
    ///   ``KeychainError/Code/unsupportedFormat`` if what was sealed isn't such a file.
    public init(opening sealed: [UInt8], with key: EpochKey, application: String, client: String) throws {
        let context = Self.context(application: application, client: client)
        var content = try key.open(sealed, as: context, upTo: Self.mostBytes)
        defer { content.wipe() }
        try self.init(content)
    }

    /// Seals the file for its place.
    ///
    /// - Parameters:
    ///   - key: The application's key.
    ///   - application: The application's identifier.
    ///   - client: Whose file it is.
    /// - Returns: What to upload.
    public func sealed(with key: EpochKey, application: String, client: String) -> [UInt8] {
        var content = content()
        defer { content.wipe() }
        // Compressed sizes would say something of the secrets.
        return key.seal(
            content.bytes,
            as: Self.context(application: application, client: client),
            options: SealingOptions(compression: .none)
        )
    }

    private static func context(application: String, client: String) -> SealedContext {
        SealedContext(application: application, role: "keychain", client: client)
    }
}

extension KeychainFile: CustomStringConvertible {
    /// How much is in it, and nothing of what.
    public var description: String {
        let items = entries.values.count { $0.secret != nil }
        return "keychain file with \(items) items and \(entries.count - items) tombstones"
    }
}
