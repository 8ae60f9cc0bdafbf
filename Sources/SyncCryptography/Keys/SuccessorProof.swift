import ByteCoding
import ContentDigests
public import Foundation

/// `Encryption/successor-<epoch>.ticdsync`: a proof that a device with the former epoch's key created the application again.
///
/// The article <doc:Formats> describes the format, byte by byte. A device that has the former epoch's key can check the proof.
/// Without it, the new epoch may come from a user who had lost every key, or from an attacker who can write to the storage.
public struct SuccessorProof: Sendable, Hashable {
    /// The file's bytes.
    public let bytes: [UInt8]
    /// The former epoch.
    public let formerEpoch: UUID
    /// The epoch that replaced it.
    public let epoch: UUID
    private let registrationDigest: [UInt8]

    /// The size of the file, in bytes.
    public static let byteCount = FileMagic.startByteCount + 2 + 16 + 16 + Blake2b.byteCount + KeyProof.byteCount

    /// Creates the proof of a successor.
    ///
    /// - Parameters:
    ///   - former: The key of the former epoch.
    ///   - epoch: The epoch that replaces it.
    ///   - registration: The successor's `Information/registration.plist`, byte for byte.
    public init(former: EpochKey, successor epoch: UUID, registration: [UInt8]) {
        formerEpoch = former.epoch
        self.epoch = epoch
        registrationDigest = Blake2b.digest(of: registration)
        let file = FileMagic.epoch.start + KeyFile.suite.littleEndianBytes
        bytes = KeyProof.append(to: file + formerEpoch.bytes + epoch.bytes + registrationDigest, by: former.master)
    }

    /// Reads a proof, which proves nothing until ``holds(for:registration:)`` says so.
    ///
    /// - Parameter bytes: The file.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat`` if it has another format or a newer version;
    ///   ``CryptographyError/Code/corrupt`` if it's incomplete or damaged.
    public init(_ bytes: [UInt8]) throws(CryptographyError) {
        let name = "The proof of the application's successor"
        let corrupt = CryptographyError(.corrupt, "\(name) is damaged. Wait if it may still be arriving.")
        var fields = try FileMagic.epoch.fields(of: bytes, name, byteCount: Self.byteCount, orThrow: corrupt)
        guard fields.integer(UInt16.self) == KeyFile.suite else { throw .unknownSuite(of: name) }
        formerEpoch = UUID(bytes: fields.bytes(16))
        epoch = UUID(bytes: fields.bytes(16))
        registrationDigest = fields.bytes(Blake2b.byteCount)
        self.bytes = bytes
    }

    /// Whether a device that had this key created the application again, with this registration.
    ///
    /// - Parameters:
    ///   - former: The key of the former epoch.
    ///   - registration: The registration on the remote, byte for byte.
    /// - Returns: Whether the proof belongs to this epoch, this key and this registration.
    public func holds(for former: EpochKey, registration: [UInt8]) -> Bool {
        former.epoch == formerEpoch && Blake2b.digest(of: registration) == registrationDigest
            && KeyProof.holds(in: bytes, for: former.master)
    }
}
