public import Foundation

/// `Encryption/successor-<epoch>.ticdsync`: proves to whoever has the keys of an application's former epoch that one of
/// them made the application anew.
///
/// The article <doc:Formats> says what is in it, byte by byte. Without such a file a new epoch may be anybody's work:
/// that of a person who had lost every key, or of whoever can write to the storage.
public struct SuccessorProof: Sendable, Hashable {
    /// The file's bytes.
    public let bytes: [UInt8]
    /// The epoch that is over.
    public let formerEpoch: UUID
    /// The epoch that took its place.
    public let epoch: UUID
    private let registrationDigest: [UInt8]

    /// How many bytes the file has.
    public static let byteCount = checksumOffset + Blake2b.byteCount

    private static let suite: UInt16 = 1
    private static let proofOffset = FileMagic.byteCount + 2 + 2 + 16 + 16 + Blake2b.byteCount
    private static let checksumOffset = proofOffset + Blake2b.byteCount

    /// Proves a successor.
    ///
    /// - Parameters:
    ///   - former: The key of the epoch that is over.
    ///   - epoch: The epoch that takes its place.
    ///   - registration: The successor's `Information/registration.plist`, byte for byte.
    public init(former: EpochKey, successor epoch: UUID, registration: [UInt8]) {
        formerEpoch = former.epoch
        self.epoch = epoch
        registrationDigest = Blake2b.digest(of: registration)
        var file = FileMagic.epoch.bytes + UInt16(1).littleEndianBytes + Self.suite.littleEndianBytes
        file += formerEpoch.bytes + epoch.bytes + registrationDigest
        file += Blake2b.digest(of: file, key: former.master.bytes)
        file += Blake2b.digest(of: file)
        bytes = file
    }

    /// Reads a proof, which proves nothing until ``holds(for:registration:)`` says so.
    ///
    /// - Parameter bytes: The file.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat`` if it isn't one of ours or a newer program's;
    ///   ``CryptographyError/Code/corrupt`` if it's torn or damaged.
    public init(_ bytes: [UInt8]) throws(CryptographyError) {
        let corrupt = CryptographyError(
            .corrupt,
            "The proof of the application's successor is damaged. Wait if it may still be arriving."
        )
        try FileMagic.epoch.check(bytes[...], "The proof of the application's successor", torn: corrupt)
        guard bytes.count == Self.byteCount,
            Blake2b.digest(of: Array(bytes.prefix(Self.checksumOffset)))
                == Array(bytes.dropFirst(Self.checksumOffset))
        else { throw corrupt }
        var fields = FieldReader(bytes.dropFirst(FileMagic.byteCount + 2))
        guard fields.integer(UInt16.self) == Self.suite else {
            throw CryptographyError(
                .unsupportedFormat,
                "The proof of the application's successor uses a cipher suite that this program doesn't know. Update it."
            )
        }
        formerEpoch = UUID(bytes: fields.bytes(16))
        epoch = UUID(bytes: fields.bytes(16))
        registrationDigest = fields.bytes(Blake2b.byteCount)
        self.bytes = bytes
    }

    /// Whether somebody who had this key made the application anew, with this registration.
    ///
    /// - Parameters:
    ///   - former: The key of the epoch that is over.
    ///   - registration: The registration that stands on the remote, byte for byte.
    /// - Returns: Whether the proof is of this epoch, by this key, for this registration.
    public func holds(for former: EpochKey, registration: [UInt8]) -> Bool {
        let proof = Blake2b.secret(of: Array(bytes.prefix(Self.proofOffset)), key: former.master.bytes)
        return former.epoch == formerEpoch && Blake2b.digest(of: registration) == registrationDigest
            && proof.isEqual(to: Array(bytes[Self.proofOffset..<Self.checksumOffset]))
    }
}
