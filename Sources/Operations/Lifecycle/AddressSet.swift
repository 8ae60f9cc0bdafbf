import Synchronization

/// A set of objects' addresses, which any number of threads change at the same time without a lock.
///
/// It has a bit for each address at which an object can be, a multiple of 16. The bits are in pages, each for a mebibyte of
/// the address space. Two levels of tables lead to a page. Tables and pages are created on first use and kept forever, so
/// that a thread may use them without protection: they take about a hundredth of the memory that the objects took.
///
/// A `Set` behind a lock costs every operation a fifth of its time: its memory moves between the core that adds and the
/// core that runs at each access. Operations that are added in succession usually share a word here.
struct AddressSet: @unchecked Sendable {
    // Sendable: all words are atomic, and their memory is never freed.
    /// A word of a page is 64 bits of the set; a word of a table is the address of a table or a page, or 0.
    private typealias Word = Atomic<UInt>

    private static let tableCount = 1 << 14
    private static let pageCount = 1 << 10
    private let root = makeWords(AddressSet.tableCount)

    /// Inserts an address.
    ///
    /// Returns `false` if it is in the set already.
    func insert(_ address: UInt) -> Bool {
        let bit = Self.bit(of: address)
        return word(of: address).pointee.bitwiseOr(bit, ordering: .relaxed).oldValue & bit == 0
    }

    /// Removes an address.
    func remove(_ address: UInt) {
        word(of: address).pointee.bitwiseAnd(~Self.bit(of: address), ordering: .relaxed)
    }

    /// The lowest four bits of an address are 0; the next six are the index of its bit in the word.
    private static func bit(of address: UInt) -> UInt { 1 << (address >> 4 & 63) }

    /// Of an address, 48 bits say where the object is; the bits above may be a tag.
    private func word(of address: UInt) -> UnsafeMutablePointer<Word> {
        let table = Self.child(of: root + Int(address >> 34) % Self.tableCount, Self.tableCount)
        let page = Self.child(of: table + Int(address >> 20) % Self.tableCount, Self.pageCount)
        return page + Int(address >> 10) % Self.pageCount
    }

    /// Returns the table or page to which a word refers, and creates it if there is none.
    private static func child(of word: UnsafeMutablePointer<Word>, _ count: Int) -> UnsafeMutablePointer<Word> {
        if let child = UnsafeMutablePointer<Word>(bitPattern: word.pointee.load(ordering: .acquiring)) { return child }
        let made = makeWords(count)
        let (isFirst, current) = word.pointee.compareExchange(
            expected: 0,
            desired: UInt(bitPattern: made),
            ordering: .acquiringAndReleasing
        )
        guard !isFirst, let other = UnsafeMutablePointer<Word>(bitPattern: current) else { return made }
        made.deallocate()
        return other
    }

    private static func makeWords(_ count: Int) -> UnsafeMutablePointer<Word> {
        let words = UnsafeMutablePointer<Word>.allocate(capacity: count)
        for index in 0..<count { (words + index).initialize(to: Word(0)) }
        return words
    }
}
