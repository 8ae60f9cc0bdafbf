import SyncCryptography

/// A digest where any will do.
enum ContentRootFixture {
    static let root = ContentRoot(hex: String(repeating: "ab", count: 32))
}
