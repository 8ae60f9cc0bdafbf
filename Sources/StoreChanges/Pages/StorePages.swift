import ContentDigests
import DatabaseSupport
import Dispatch
import GRDB
import GRDBSQLite
import Synchronization

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
    /// How many pages come before these.
    private var formerCount = 0

    /// How many bytes of a store are read at once, a multiple of every page size.
    private static let blockSize = 1 << 20

    /// Reads all pages of a store; `nil` if part of the store isn't in its file, but in a log.
    ///
    /// - Parameters:
    ///   - db: A connection in a read transaction.
    ///   - key: The secret key of the hashes.
    /// - Throws: `DatabaseError`.
    init?(of db: Database, key: [UInt8]) throws {
        guard let file = try DatabasePages(of: db) else { return nil }
        var reserved: CInt = -1
        // A negative number changes nothing, and gets the number.
        sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved)
        self.init(usableSize: file.pageSize - Int(max(reserved, 0)), KeyedHash(key: key))
        let blockCount = Int((file.byteCount + Int64(Self.blockSize) - 1) / Int64(Self.blockSize))
        // Used with the lock only, while this thread waits.
        nonisolated(unsafe) let db = db
        let found = Mutex<(blocks: [Int: StorePages], error: (any Error)?)>(([:], nil))
        DispatchQueue.concurrentPerform(iterations: blockCount) { [self] index in
            let bytes = found.withLock { found -> [UInt8]? in
                guard found.error == nil else { return nil }
                do {
                    return try file.read(db, at: Int64(index * Self.blockSize), upTo: Self.blockSize)
                } catch {
                    found.error = error
                    return nil
                }
            }
            guard let bytes else { return }
            var block = self
            block.formerCount = index * Self.blockSize / file.pageSize
            bytes.withUnsafeBytes { block.add($0, pageSize: file.pageSize) }
            found.withLock { $0.blocks[index] = block }
        }
        let (blocks, error) = found.withLock(\.self)
        if let error { throw error }
        for index in 0..<blockCount { blocks[index].map { append($0) } }
    }

    private mutating func append(_ block: StorePages) {
        hashes += block.hashes
        next += block.next
        kinds += block.kinds
        children.merge(block.children) { _, new in new }
        overflow.merge(block.overflow) { _, new in new }
    }

    /// Takes pages that no store has to have, for tests.
    init(pageSize: Int, pages: [[UInt8]]) {
        self.init(usableSize: pageSize, KeyedHash(key: Array(repeating: 0, count: KeyedHash.keyBytes)))
        for page in pages { page.withUnsafeBytes { add($0, pageSize: pageSize) } }
    }

    private init(usableSize: Int, _ hash: KeyedHash) {
        self.usableSize = usableSize
        self.hash = hash
    }

    /// Adds the next pages.
    private mutating func add(_ pages: UnsafeRawBufferPointer, pageSize: Int) {
        for start in stride(from: 0, to: pages.count, by: pageSize) {
            add(UnsafeRawBufferPointer(rebasing: pages[start..<start + pageSize]))
        }
    }

    private mutating func add(_ bytes: UnsafeRawBufferPointer) {
        hashes.append(hash.hash(bytes))
        next.append(UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self)))
        let number = formerCount + hashes.count
        let page = TreePage(bytes, numbered: number, usableSize: usableSize)
        // Anything may look like a page of a tree. Only pages to which a tree leads are used.
        guard let page, let overflowPages = page.overflowPages else { return kinds.append(0) }
        kinds.append(page.kind.rawValue)
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
