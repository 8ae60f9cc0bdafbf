/// The limits of a list, whose pages an untrusted server sends.
struct ListLimits {
    /// The maximum number of pages of a list.
    private static let maximumPages = 1000

    /// The maximum size of all keys in a list in bytes: they are kept in memory.
    private static let maximumBytes = 1 << 26

    /// The size that a key has at least: in memory, a short key isn't smaller, nor is a repeated one.
    private static let minimumKeyBytes = 64

    /// The maximum number of successive pages without new names: servers may leave keys out of a page they have cut.
    private static let fruitlessPages = 10

    private var names: Set<String> = []
    private var (pages, fruitless, byteCount) = (0, 0, 0)

    /// Notes the keys of a page, and returns whether the next page may be requested.
    mutating func allowAnotherPage(after keys: [String]) -> Bool {
        let former = names.count
        names.formUnion(keys)
        fruitless = names.count > former ? 0 : fruitless + 1
        byteCount += keys.reduce(0) { $0 + max($1.utf8.count, Self.minimumKeyBytes) }
        pages += 1
        return pages < Self.maximumPages && fruitless < Self.fruitlessPages && byteCount < Self.maximumBytes
    }
}
