import Foundation
import OperationsTesting
import Testing

@testable import SyncCryptography

@Suite("The digests of a file's blocks")
struct BlockDigestsTests {
    private func digests(of bytes: [UInt8], blockSize: Int) -> BlockDigests {
        var digests = BlockDigests(blockSize: blockSize)
        digests.update(bytes)
        return digests
    }

    private func pieces(of bytes: [UInt8], _ size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    @Test(
        "a block of a page has its digest, a larger one that of its pages' digests",
        arguments: [0, 1, 4095, 4096, 50_000]
    )
    func blocks(count: Int) {
        let bytes = [UInt8].noise(count)
        let whole = digests(of: bytes, blockSize: 4096)
        #expect(whole.byteCount == Int64(count))
        #expect(whole.bytes == pieces(of: bytes, 4096).flatMap { Blake2b.digest(of: $0) })
        let larger = digests(of: bytes, blockSize: 16384)
        #expect(
            larger.bytes
                == pieces(of: bytes, 16384).flatMap { block in
                    Blake2b.digest(of: pieces(of: block, 4096).flatMap { Blake2b.digest(of: $0) })
                }
        )
        var inPieces = BlockDigests(blockSize: 16384)
        for piece in pieces(of: bytes, 32768) { inPieces.update(piece) }
        #expect(inPieces == larger)
        #expect(BlockDigests(blockSize: 4096, byteCount: Int64(count), bytes: whole.bytes) == whole)
        for wrong in [Int64(count) + 4096, -1, .max, .min] {
            #expect(BlockDigests(blockSize: 4096, byteCount: wrong, bytes: whole.bytes) == nil)
        }
        for wrong in [0, -1, 4095, 5000, 2 << 20, .max] {
            #expect(BlockDigests(blockSize: wrong, byteCount: Int64(count), bytes: whole.bytes) == nil)
        }
    }

    @Test("what changed is what a comparison of the bytes finds, as runs that don't touch", arguments: [4096, 8192])
    func changes(size: Int) {
        var generator = SplitMix64(seed: 7)
        let noise = [[UInt8].noise(60_000), .noise(60_000, seed: 2)]
        for _ in 0..<100 {
            let former = Array(noise[0].prefix(Int.random(in: 0...60_000, using: &generator)))
            var bytes = Array(former.prefix(Int.random(in: 0...60_000, using: &generator)))
            bytes += noise[1].prefix(Int.random(in: 0...10_000, using: &generator))
            for _ in 0..<Int.random(in: 0...3, using: &generator) where !bytes.isEmpty {
                bytes[Int.random(in: bytes.indices, using: &generator)] &+= 1
            }
            func block(_ number: Int, of bytes: [UInt8]) -> ArraySlice<UInt8> {
                bytes.dropFirst(number * size).prefix(size)
            }
            let count = (bytes.count + size - 1) / size
            let expected = (0..<count).filter { block($0, of: bytes) != block($0, of: former) }.map(Int64.init)
            let found = digests(of: bytes, blockSize: size)
            let runs = found.blocksChanged(since: digests(of: former, blockSize: size))
            #expect(runs.flatMap(Array.init) == expected)
            #expect(zip(runs, runs.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
            for number in 0..<count {
                #expect(found.match(Array(block(number, of: bytes)), at: Int64(number * size)))
                #expect(!found.match(block(number, of: bytes).map { $0 ^ 1 }, at: Int64(number * size)))
            }
        }
    }

    @Test("a pass over a file finds them out beside its root")
    func summary() async throws {
        let bytes = [UInt8].noise((3 << 20) + 5000)
        let source = Pieces(bytes: bytes, sizes: [100_000])
        let summary = try await SealingWorkers.withWorkers {
            try await ContentSummary.of(source, blockSize: 8192, on: $0)
        }
        #expect(summary.blocks == digests(of: bytes, blockSize: 8192))
        var hasher = ContentRootHasher()
        hasher.update(bytes)
        #expect(summary.contentRoot == hasher.finalize())
    }
}
