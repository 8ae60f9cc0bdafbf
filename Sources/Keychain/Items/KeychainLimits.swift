import SyncCryptography

/// What fits into a keychain: what is read from files has to be bounded by something.
public enum KeychainLimits {
    /// How many bytes of UTF-8 an attribute may have.
    public static let attributeBytes = 1 << 10
    /// How many bytes a secret may have.
    public static let secretBytes = 16 << 10
    /// How many items a keychain may hold.
    public static let items = 4_096
    /// How many deletions of synchronizable items may wait until every client knows of them.
    public static let tombstones = 1 << 16

    static func check(_ secret: SecretBytes) throws(KeychainError) {
        guard secret.count <= secretBytes else {
            throw KeychainError(
                .invalidItem,
                """
                The secret has \(secret.count) bytes; a keychain item may have \(secretBytes). Seal a file and keep its key in \
                the keychain.
                """
            )
        }
    }
}
