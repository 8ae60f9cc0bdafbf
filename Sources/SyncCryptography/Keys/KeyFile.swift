import ByteCoding
import ContentDigests
public import Foundation

/// `Encryption/test.ticdsync`: the master key, wrapped by a password, and a proof that a device has the master key.
///
/// The article <doc:Formats> describes the format, byte by byte. A key file isn't trusted until ``open(with:executor:)`` or
/// ``isProven(by:)`` succeeds: until then, use its fields only to call these methods.
public struct KeyFile: Sendable, Hashable {
    /// What a key file says besides the key: none of it is secret.
    struct Fields: Sendable, Hashable {
        var epoch: UUID
        /// The digest of the `registration.plist` that the file belongs to.
        var registrationDigest: [UInt8]
        var passwordVersion: UInt32
        var parameters: PasswordParameters
        var salt = Sodium.randomBytes(Argon2id.saltBytes)
    }

    /// The file's bytes.
    public let bytes: [UInt8]
    let fields: Fields
    private let nonce: [UInt8]

    /// The epoch of the application that the key is for.
    public var epoch: UUID { fields.epoch }
    /// The number of passwords that the application has had, including this password.
    ///
    /// A device that has seen a version never accepts a lower one.
    public var passwordVersion: UInt32 { fields.passwordVersion }
    /// The cost of hashing the password.
    public var parameters: PasswordParameters { fields.parameters }
    /// The password's salt, 16 bytes.
    public var salt: [UInt8] { fields.salt }

    /// The size of a key file, in bytes.
    public static let byteCount = wrappedOffset + wrappedBytes + KeyProof.byteCount

    /// The name of the cipher suite that key files and sealed files are written with, for an application's registration.
    public static let suiteName = "argon2id-xchacha20poly1305-blake2b"

    /// The suite's number.
    static let suite: UInt16 = 1
    private static let wrappedOffset = 120
    private static let wrappedBytes = plainBytes + XChaCha20Poly1305.tagBytes
    /// The master key and as many zeros.
    private static let plainBytes = 2 * MasterKey.byteCount

    /// Reads a key file.
    ///
    /// The cost parameters aren't validated yet.
    ///
    /// - Parameter bytes: The file.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat`` if it has another format or a newer version;
    ///   ``CryptographyError/Code/corrupt`` if it's incomplete or damaged, which no password repairs.
    public init(_ bytes: [UInt8]) throws(CryptographyError) {
        var fields = try FileMagic.key.fields(
            of: bytes,
            "The key file",
            byteCount: Self.byteCount,
            orThrow: .corruptKeyFile
        )
        guard fields.integer(UInt16.self) == Self.suite else { throw .unknownSuite(of: "The key file") }
        self.fields = Fields(
            epoch: UUID(bytes: fields.bytes(16)),
            registrationDigest: fields.bytes(Blake2b.byteCount),
            passwordVersion: fields.integer(),
            parameters: PasswordParameters(
                passes: Int(fields.integer(UInt32.self)),
                memoryKibibytes: Int(fields.integer(UInt32.self))
            ),
            salt: fields.bytes(Argon2id.saltBytes)
        )
        nonce = fields.bytes(XChaCha20Poly1305.nonceBytes)
        self.bytes = bytes
    }

    /// Wraps a master key with a key that was derived from a password.
    init(
        wrapping masterKey: MasterKey,
        with passwordKey: SecretBytes,
        _ fields: Fields,
        nonce: [UInt8] = Sodium.randomBytes(XChaCha20Poly1305.nonceBytes)
    ) {
        self.fields = fields
        self.nonce = nonce
        var file = FileMagic.key.start + Self.suite.littleEndianBytes
        file += fields.epoch.bytes + fields.registrationDigest + fields.passwordVersion.littleEndianBytes
        file += UInt32(fields.parameters.passes).littleEndianBytes
        file += UInt32(fields.parameters.memoryKibibytes).littleEndianBytes
        file += fields.salt + nonce
        precondition(file.count == Self.wrappedOffset, "the fields of a key file have \(file.count) bytes")
        let plain = SecretBytes(count: Self.plainBytes) { plain in
            plain.initializeMemory(as: UInt8.self, repeating: 0)
            masterKey.bytes.withBytes { plain.copyMemory(from: $0) }
        }
        var wrapped = [UInt8](repeating: 0, count: Self.wrappedBytes)
        plain.withBytes { plain in
            wrapped.withUnsafeMutableBytes {
                XChaCha20Poly1305.seal(plain, into: $0, nonce: nonce, associated: file, key: passwordKey)
            }
        }
        bytes = KeyProof.append(to: file + wrapped, by: masterKey)
    }

    /// Unwraps the master key.
    func unwrap(with passwordKey: SecretBytes) throws(CryptographyError) -> MasterKey {
        var isAuthentic = false
        let plain = SecretBytes(count: Self.plainBytes) { plain in
            bytes.withUnsafeBytes { file in
                isAuthentic = XChaCha20Poly1305.open(
                    UnsafeRawBufferPointer(rebasing: file.dropFirst(Self.wrappedOffset).prefix(Self.wrappedBytes)),
                    into: plain,
                    nonce: nonce[...],
                    associated: Array(bytes.prefix(Self.wrappedOffset)),
                    key: passwordKey
                )
            }
        }
        guard isAuthentic else {
            throw CryptographyError(
                .wrongPassword,
                "This application isn't encrypted with this password. Try again."
            )
        }
        let key = SecretBytes(count: MasterKey.byteCount) { key in
            plain.withBytes { key.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0.prefix(MasterKey.byteCount))) }
        }
        let masterKey = try MasterKey(key)
        let hasZeros = plain.withBytes { $0.dropFirst(MasterKey.byteCount).allSatisfy { $0 == 0 } }
        guard hasZeros, isProven(by: masterKey) else {
            throw CryptographyError(
                .tampered,
                "The key file opens, but its content isn't valid. Restore it from a backup."
            )
        }
        return masterKey
    }

    /// Whether the writer of the file had this master key.
    ///
    /// This is how a device that has the keys recognizes its application.
    public func isProven(by masterKey: MasterKey) -> Bool {
        KeyProof.holds(in: bytes, for: masterKey)
    }

    /// Whether the file belongs to an application with this registration.
    ///
    /// Trust the result only if the file was opened or is proven.
    ///
    /// - Parameter registration: `Information/registration.plist`, byte for byte.
    /// - Returns: Whether its digest is the one in the file.
    public func binds(registration: [UInt8]) -> Bool {
        Blake2b.digest(of: registration) == fields.registrationDigest
    }
}

extension KeyFile: CustomStringConvertible {
    /// The fields that are no secret.
    public var description: String { "key file of epoch \(epoch), password \(passwordVersion), \(parameters)" }
}

extension CryptographyError {
    /// Returns the error for a file of a cipher suite other than ``KeyFile/suite``.
    static func unknownSuite(of name: String) -> CryptographyError {
        CryptographyError(
            .unsupportedFormat,
            "\(name) uses a cipher suite that this program doesn't know. Update this program."
        )
    }

    fileprivate static let corruptKeyFile = CryptographyError(
        .corrupt,
        "The key file is damaged, whatever the password is. Wait if it may still be arriving. Otherwise restore it from a backup."
    )
}
