import Foundation
public import SyncCryptography

/// The content of a client's `Information/Keychain/<client>.ticdsync`: the synchronizable items as this client knows them.
///
/// Each client writes only its own file and reads all files, which are sealed by the application's key:
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
/// The article <doc:SynchronizableItems> describes the format, byte by byte.
public struct KeychainFile: Hashable, Sendable {
    /// The maximum size of a file's content, in bytes.
    public static let maximumBytes =
        64 + maximumReplicas * 24 + KeychainLimits.tombstones * 64 + KeychainLimits.items * KeychainLimits.secretBytes
        + (KeychainLimits.items + KeychainLimits.tombstones) * 3 * KeychainLimits.attributeBytes

    /// The maximum size of a sealed file, in bytes.
    package static let maximumSealedBytes = maximumBytes + maximumBytes >> 10

    /// The maximum number of replicas that a file may know of.
    static let maximumReplicas = 1 << 16

    /// The replica that wrote the file.
    let replica: UUID
    /// Distinguishes the file from every other file of the same client.
    let publication: UUID
    /// The counter of each replica up to which the file contains its edits.
    let seen: [UUID: UInt64]
    /// Items and tombstones.
    let entries: [ItemKey: ItemEntry]

    /// Whether the file contains an edit.
    func hasSeen(_ stamp: Stamp) -> Bool { stamp.counter <= seen[stamp.replica, default: 0] }

    /// Whether replacing this file with the other would tell other clients nothing new.
    func saysTheSame(as other: KeychainFile) -> Bool {
        replica == other.replica && seen == other.seen && entries == other.entries
    }

    /// Seals the file as a client's keychain file.
    ///
    /// - Parameters:
    ///   - key: The application's key.
    ///   - application: The application's identifier.
    ///   - client: The client whose file it is.
    /// - Returns: The bytes to upload.
    public func sealed(with key: EpochKey, application: String, client: String) -> [UInt8] {
        var content = content()
        defer { content.wipe() }
        // Compressed sizes would reveal something about the secrets.
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

extension KeychainFile {
    /// Opens a client's file.
    ///
    /// - Parameters:
    ///   - sealed: The file, as it was downloaded.
    ///   - key: The application's key.
    ///   - application: The application's identifier.
    ///   - client: The client whose file it must be.
    /// - Throws: `CryptographyError` if it wasn't sealed as this client's file; ``KeychainError/Code/corrupt`` or
    ///   ``KeychainError/Code/unsupportedFormat`` if its content isn't a keychain file's.
    public init(opening sealed: [UInt8], with key: EpochKey, application: String, client: String) throws {
        let context = Self.context(application: application, client: client)
        var content = try key.open(sealed, as: context, upTo: Self.maximumBytes)
        defer { content.wipe() }
        try self.init(content)
    }
}

extension KeychainFile: CustomStringConvertible {
    /// The numbers of items and tombstones, without their content.
    public var description: String {
        let items = entries.values.count { $0.secret != nil }
        return "keychain file with \(items) items and \(entries.count - items) tombstones"
    }
}
