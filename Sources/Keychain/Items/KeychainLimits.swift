import SyncCryptography

/// The limits of a keychain, which also bound what is read from untrusted files.
public enum KeychainLimits {
    /// The maximum size of an attribute, in bytes of UTF-8.
    public static let attributeBytes = 1 << 10
    /// The maximum size of a secret, in bytes.
    public static let secretBytes = 16 << 10
    /// The maximum number of items in a keychain.
    public static let items = 4_096
    /// The maximum number of deletions of synchronizable items that not every client knows of.
    public static let tombstones = 1 << 16

    static func check(_ secret: SecretBytes) throws(KeychainError) {
        guard secret.count <= secretBytes else {
            throw KeychainError(
                .invalidItem,
                """
                The secret has \(secret.count) bytes, and a keychain item may have \(secretBytes). Seal a file and keep its key in \
                the keychain.
                """
            )
        }
    }
}
