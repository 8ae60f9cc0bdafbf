/// Which rows of a table were found: a bit for each.
struct RowMarks {
    private var words: [Int64: UInt64] = [:]
    /// The word that was changed last: rows are found mostly in order.
    private var last: (index: Int64, bits: UInt64) = (-1, 0)

    /// Marks a row by its identifier in the replica, and returns whether it wasn't marked before.
    @discardableResult
    mutating func insert(_ id: Int64) -> Bool {
        let (index, bit) = (id >> 6, UInt64(1) << UInt64(id & 63))
        if index != last.index {
            words[last.index] = last.bits
            last = (index, words[index] ?? 0)
        }
        defer { last.bits |= bit }
        return last.bits & bit == 0
    }

    func contains(_ id: Int64) -> Bool {
        let (index, bit) = (id >> 6, UInt64(1) << UInt64(id & 63))
        return (index == last.index ? last.bits : words[index] ?? 0) & bit != 0
    }
}
