/// A page of a B-tree, as SQLite's file format has it (https://www.sqlite.org/fileformat2.html#b_tree_pages).
///
/// Any bytes may be asked for being one: those of a page that is something else must not do harm.
struct TreePage {
    /// What a page of a tree is.
    enum Kind: UInt8 {
        case indexInterior = 2
        case tableInterior = 5
        case indexLeaf = 10
        case tableLeaf = 13

        var isInterior: Bool { self == .indexInterior || self == .tableInterior }
        var isOfTable: Bool { self == .tableInterior || self == .tableLeaf }
    }

    /// A child of an interior page.
    struct Child {
        var page: UInt32
        /// The greatest row number in the child; `nil` for the last child, and in an index.
        var upper: Int64?
    }

    let kind: Kind
    private let bytes: UnsafeRawBufferPointer
    private let header: Int
    /// The size of a page without what is reserved at its end.
    private let usableSize: Int

    /// - Parameters:
    ///   - bytes: A page.
    ///   - number: The page's number.
    ///   - usableSize: The size of a page without what is reserved at its end.
    init?(_ bytes: UnsafeRawBufferPointer, numbered number: Int, usableSize: Int) {
        header = number == 1 ? 100 : 0
        guard bytes.count >= header + 12, usableSize <= bytes.count, let kind = Kind(rawValue: bytes[header]) else {
            return nil
        }
        self.kind = kind
        self.bytes = bytes
        self.usableSize = usableSize
    }

    /// The children of an interior page, in their order; `nil` if the page isn't one.
    var children: [Child]? {
        guard kind.isInterior, let last = number(at: header + 8) else { return nil }
        var children: [Child] = []
        for index in 0..<cellCount {
            guard let start = cell(index), let page = number(at: start) else { return nil }
            var upper: Int64?
            if kind == .tableInterior {
                guard let key = varint(at: start + 4)?.value else { return nil }
                upper = Int64(bitPattern: key)
            }
            children.append(Child(page: page, upper: upper))
        }
        return children + [Child(page: last, upper: nil)]
    }

    /// The pages in which the contents of cells continue that have no room here; `nil` if the page isn't one of a tree.
    var overflowPages: [UInt32]? {
        guard kind != .tableInterior else { return [] }
        let mostLocal = kind.isOfTable ? usableSize - 35 : (usableSize - 12) * 64 / 255 - 23
        var pages: [UInt32] = []
        for index in 0..<cellCount {
            guard let start = cell(index), let size = varint(at: kind == .indexInterior ? start + 4 : start) else {
                return nil
            }
            guard size.value > UInt64(mostLocal) else { continue }
            var content = size.end
            if kind == .tableLeaf {
                guard let key = varint(at: content) else { return nil }
                content = key.end
            }
            let leastLocal = (usableSize - 12) * 32 / 255 - 23
            guard size.value < 1 << 40 else { return nil }
            let fitting = leastLocal + (Int(size.value) - leastLocal) % (usableSize - 4)
            guard let page = number(at: content + (fitting <= mostLocal ? fitting : leastLocal)) else { return nil }
            pages.append(page)
        }
        return pages
    }

    private var cellCount: Int { Int(bytes[header + 3]) << 8 | Int(bytes[header + 4]) }

    /// Where a cell begins.
    private func cell(_ index: Int) -> Int? {
        let pointer = header + (kind.isInterior ? 12 : 8) + 2 * index
        guard pointer + 2 <= bytes.count else { return nil }
        return Int(bytes[pointer]) << 8 | Int(bytes[pointer + 1])
    }

    private func number(at start: Int) -> UInt32? {
        guard start + 4 <= bytes.count else { return nil }
        return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt32.self))
    }

    private func varint(at start: Int) -> (value: UInt64, end: Int)? {
        var value: UInt64 = 0
        for index in start..<start + 9 {
            guard index < bytes.count else { return nil }
            let byte = UInt64(bytes[index])
            if index == start + 8 { return (value << 8 | byte, index + 1) }
            value = value << 7 | byte & 0x7F
            if byte < 0x80 { return (value, index + 1) }
        }
        return nil
    }
}
