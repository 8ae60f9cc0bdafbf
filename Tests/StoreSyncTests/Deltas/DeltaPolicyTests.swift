import Testing

@testable import StoreSync

@Suite("The policy for deltas and their blocks")
struct DeltaPolicyTests {
    @Test("Blocks have 4 KiB, or more if there would be too many to remember")
    func blockSize() {
        #expect([0, 1, 4096, 1 << 30, (1 << 32) - 1].map(DeltaPolicy.blockSize) == Array(repeating: 4096, count: 5))
        #expect([1 << 32, 1 << 33, (1 << 40) - 1].map(DeltaPolicy.blockSize) == [8192, 16384, 1 << 20])
        #expect([1 << 40, .max].map(DeltaPolicy.blockSize) == [nil, nil])
    }

    @Test("A whole copy has at most sixteen deltas, and reading all of it costs at most 1.5 times a new whole copy")
    func folding() {
        func allows(_ bytes: Int64, _ deltas: [Int64], size: Int64 = 1000) -> Bool {
            DeltaPolicy.allows(bytes, of: size, on: (size: 1000, storedSize: 500), after: deltas)
        }
        #expect(allows(500, []) && !allows(502, []))
        #expect(allows(100, [100, 100]) && !allows(102, [100, 100]))
        #expect(allows(1, Array(repeating: 1, count: 15)) && !allows(1, Array(repeating: 1, count: 16)))
        // A store that only grew is cheaper as a delta. A store that shrank is soon cheaper as a whole copy.
        #expect(allows(5000, [], size: 6000))
        #expect(allows(0, [], size: 667) && !allows(0, [], size: 666))
        #expect(!DeltaPolicy.allows(56, of: 0, on: (size: 0, storedSize: 104), after: []))
    }
}
