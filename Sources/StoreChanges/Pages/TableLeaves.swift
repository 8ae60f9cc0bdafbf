/// The leaves of a table's tree, in the order of its rows: which row numbers belong to each, and a hash of what it holds.
///
/// Rows that are in a leaf of the same numbers with the same hash are as they were, wherever the leaf is in the file.
struct TableLeaves: Equatable {
    /// For each leaf the greatest row number that belongs to it; the last one has all further numbers.
    private(set) var uppers: [Int64] = []
    private(set) var hashes: [UInt64] = []

    mutating func append(upTo upper: Int64, _ hash: UInt64) {
        uppers.append(upper)
        hashes.append(hash)
    }

    /// The numbers of the rows that may have changed since there were other leaves.
    func changes(since former: TableLeaves) -> ChangedRows {
        var ranges: [ClosedRange<Int64>] = []
        var changedCount = 0
        var index = 0
        for (position, upper) in uppers.enumerated() {
            while index < former.uppers.count, former.uppers[index] < upper { index += 1 }
            let lower = position == 0 ? Int64.min : uppers[position - 1] + 1
            let formerLower = index == 0 ? Int64.min : former.uppers[index - 1] + 1
            let isSame =
                index < former.uppers.count && former.uppers[index] == upper && formerLower == lower
                && former.hashes[index] == hashes[position] && hashes[position] != Self.forgotten
            guard !isSame else { continue }
            changedCount += 1
            if let last = ranges.last, last.upperBound + 1 == lower {
                ranges[ranges.count - 1] = last.lowerBound...upper
            } else {
                ranges.append(lower...upper)
            }
        }
        // Rows of many leaves are read faster from the first to the last.
        return changedCount * 4 > uppers.count ? .all : .ranges(ranges, leafCount: changedCount)
    }

    /// Forgets what the leaves hold to which some row numbers belong, so that these rows may have changed.
    ///
    /// The leaves themselves stay, each with a hash that no leaf has. If one was missing, its numbers would belong to the
    /// next one, which may have got them since, and be unchanged otherwise.
    ///
    /// - Parameter numbers: The numbers, in ascending order.
    mutating func forget(_ numbers: [Int64]) {
        var index = 0
        for (position, upper) in uppers.enumerated() {
            let first = index
            while index < numbers.count, numbers[index] <= upper { index += 1 }
            if index > first { hashes[position] = Self.forgotten }
        }
    }

    /// The hash of a leaf that was forgotten: a leaf with this hash counts as changed.
    private static let forgotten: UInt64 = 1

    // MARK: Coding

    /// The leaves' bytes, in parts that mostly stay the same if few leaves change, by the last row number of each.
    var parts: [Int64: [UInt8]] {
        var parts: [Int64: [UInt8]] = [:]
        var part: [UInt8] = []
        for (upper, hash) in zip(uppers, hashes) {
            withUnsafeBytes(of: (upper.littleEndian, hash.littleEndian)) { part += $0 }
            // Where a part ends depends on what is there alone: on one of about 512 leaves.
            guard hash & 0x1FF == 0 || upper == uppers.last else { continue }
            parts[upper] = part
            part = []
        }
        return parts
    }

    /// Reads the leaves from their parts, in ascending order of the row numbers.
    init(parts: [[UInt8]]) {
        for part in parts {
            part.withUnsafeBytes { bytes in
                for start in stride(from: 0, to: bytes.count - bytes.count % 16, by: 16) {
                    let upper = bytes.loadUnaligned(fromByteOffset: start, as: Int64.self)
                    let hash = bytes.loadUnaligned(fromByteOffset: start + 8, as: UInt64.self)
                    append(upTo: Int64(littleEndian: upper), UInt64(littleEndian: hash))
                }
            }
        }
    }

    init() {}
}

/// Which rows of a table may have changed.
enum ChangedRows: Equatable {
    /// Those whose numbers are in one of these ranges, which are in ascending order, and which so many leaves have.
    case ranges([ClosedRange<Int64>], leafCount: Int)
    case all
}
