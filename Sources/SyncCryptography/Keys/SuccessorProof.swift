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
    public static let byteCount = checksumOffset + Checksum.byteCount

    private static let suite: UInt16 = 1
    private static let proofOffset = FileMagic.byteCount + 2 + 2 + 16 + 16 + Blake2b.byteCount
    private static let checksumOffset = proofOffset + Blake2b.byteCount

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
        var file = FileMagic.epoch.bytes + UInt16(1).littleEndianBytes + Self.suite.littleEndianBytes
        file += formerEpoch.bytes + epoch.bytes + registrationDigest
        file += Blake2b.digest(of: file, key: former.master.bytes)
        bytes = Checksum.append(to: file)
    }

    /// Reads a proof, which proves nothing until ``holds(for:registration:)`` says so.
    ///
    /// - Parameter bytes: The file.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat`` if it has another format or a newer version;
    ///   ``CryptographyError/Code/corrupt`` if it's incomplete or damaged.
    public init(_ bytes: [UInt8]) throws(CryptographyError) {
        let corrupt = CryptographyError(
            .corrupt,
            "The proof of the application's successor is damaged. Wait if it may still be arriving."
        )
        var fields = try FileMagic.epoch.fields(
            of: bytes,
            "The proof of the application's successor",
            byteCount: Self.byteCount,
            orThrow: corrupt
        )
        guard fields.integer(UInt16.self) == Self.suite else {
            throw CryptographyError(
                .unsupportedFormat,
                "The proof of the application's successor uses a cipher suite that this program doesn't know. Update this program."
            )
        }
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
        let proof = Blake2b.secret(of: Array(bytes.prefix(Self.proofOffset)), key: former.master.bytes)
        return former.epoch == formerEpoch && Blake2b.digest(of: registration) == registrationDigest
            && proof.isEqual(to: Array(bytes[Self.proofOffset..<Self.checksumOffset]))
    }
}
