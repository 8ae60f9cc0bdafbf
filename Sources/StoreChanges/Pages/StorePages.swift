import ContentDigests
import GRDB
import GRDBSQLite

/// What is known of the pages of a store: how their trees hang together, and a hash of each page.
///
/// That is 13 bytes for each page, and less than a hundredth of the file besides.
struct StorePages {
    private let hash: KeyedHash
    private let usableSize: Int
    /// The hashes of the pages, and their first four bytes: if a page belongs to content that has no room in its cell, they
    /// are the next such page.
    private var hashes: [UInt64] = []
    private var next: [UInt32] = []
    /// The kinds of pages that look like those of trees, with what only few of them have.
    private var kinds: [UInt8] = []
    private var children: [UInt32: [TreePage.Child]] = [:]
    private var overflow: [UInt32: [UInt32]] = [:]

    /// Reads all pages of a store.
    ///
    /// - Parameters:
    ///   - db: A connection in a transaction.
    ///   - key: The secret key of the hashes.
    /// - Throws: `DatabaseError`.
    init(of db: Database, key: [UInt8]) throws {
        var reserved: CInt = -1
        // A negative number changes nothing, and gets the number.
        sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved)
        let pageSize = try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 0
        var pages = StorePages(usableSize: pageSize - Int(max(reserved, 0)), KeyedHash(key: key))
        try PageReader.forEachPage(of: db) { pages.add($1, numbered: $0) }
        self = pages
    }

    /// Takes pages that no store has to have, for tests.
    init(pageSize: Int, pages: [[UInt8]]) {
        self.init(usableSize: pageSize, KeyedHash(key: Array(repeating: 0, count: KeyedHash.keyBytes)))
        for (index, page) in pages.enumerated() { page.withUnsafeBytes { add($0, numbered: index + 1) } }
    }

    private init(usableSize: Int, _ hash: KeyedHash) {
        self.usableSize = usableSize
        self.hash = hash
    }

    private mutating func add(_ bytes: UnsafeRawBufferPointer, numbered number: Int) {
        while hashes.count < number {
            hashes.append(0)
            next.append(0)
            kinds.append(0)
        }
        hashes[number - 1] = hash.hash(bytes)
        next[number - 1] = UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self))
        let page = TreePage(bytes, numbered: number, usableSize: usableSize)
        // Anything may look like a page of a tree. Only pages to which a tree leads are used.
        guard let page, let overflowPages = page.overflowPages else { return kinds[number - 1] = 0 }
        kinds[number - 1] = page.kind.rawValue
        children[UInt32(number)] = page.children
        overflow[UInt32(number)] = overflowPages.isEmpty ? nil : overflowPages
    }

    /// The leaves of a table whose rows have numbers; `nil` if its tree isn't as expected.
    func leaves(fromRoot root: UInt32) -> TableLeaves? {
        guard let pages = pages(fromRoot: root), pages.allSatisfy(\.kind.isOfTable) else { return nil }
        var leaves = TableLeaves()
        var overflowCount = 0
        for page in pages where page.kind == .tableLeaf {
            guard let hash = hash(of: page.number, &overflowCount) else { return nil }
            guard leaves.uppers.last.map({ $0 < page.upper }) ?? true else { return nil }
            leaves.append(upTo: page.upper, hash)
        }
        return leaves
    }

    /// All pages of a tree as one leaf, for a table whose rows have no numbers; `nil` if the tree isn't as expected.
    func wholeTree(fromRoot root: UInt32) -> TableLeaves? {
        guard let pages = pages(fromRoot: root) else { return nil }
        var hashes: [UInt64] = []
        var overflowCount = 0
        for page in pages {
            guard let hash = hash(of: page.number, &overflowCount) else { return nil }
            hashes.append(hash)
        }
        var leaves = TableLeaves()
        leaves.append(upTo: .max, combined(hashes))
        return leaves
    }

    private typealias Page = (number: UInt32, kind: TreePage.Kind, upper: Int64)

    /// The pages of a tree in the order of its rows, each with the greatest row number that belongs to it.
    private func pages(fromRoot root: UInt32) -> [Page]? {
        var pages: [Page] = []
        // The last one is next.
        var waiting: [(number: UInt32, upper: Int64)] = [(root, .max)]
        while let (number, upper) = waiting.popLast() {
            // More pages than there are would be a circle.
            guard number > 0, number <= kinds.count, pages.count < kinds.count,
                let kind = TreePage.Kind(rawValue: kinds[Int(number) - 1])
            else { return nil }
            pages.append((number, kind, upper))
            guard kind.isInterior else { continue }
            guard let children = children[number] else { return nil }
            waiting += children.reversed().map { ($0.page, $0.upper ?? upper) }
        }
        return pages
    }

    /// The hash of a page with all contents that have no room in it; `nil` if these aren't as expected.
    private func hash(of page: UInt32, _ overflowCount: inout Int) -> UInt64? {
        guard let first = overflow[page] else { return hashes[Int(page) - 1] }
        var all = [hashes[Int(page) - 1]]
        for start in first {
            var number = start
            while number > 0 {
                overflowCount += 1
                guard number <= hashes.count, overflowCount <= hashes.count else { return nil }
                all.append(hashes[Int(number) - 1])
                number = next[Int(number) - 1]
            }
        }
        return combined(all)
    }

    private func combined(_ hashes: [UInt64]) -> UInt64 { hashes.withUnsafeBytes { hash.hash($0) } }
}
