import ContentDigests

/// A digest for tests that don't depend on its value.
enum ContentRootFixture {
    static let root = ContentRoot(hex: String(repeating: "ab", count: 32))
}
