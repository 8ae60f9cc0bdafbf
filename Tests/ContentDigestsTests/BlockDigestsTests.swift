import Foundation
import OperationsTesting
import TestSupport
import Testing

@testable import ContentDigests

@Suite("The digests of a file's blocks")
struct BlockDigestsTests {
    private let keyed = [UInt8](0..<32).withUnsafeBytes { PageHash(key: $0) }

    private func digests(of bytes: [UInt8], blockSize: Int, _ pages: PageHash) -> BlockDigests {
        var digests = BlockDigests(blockSize: blockSize, pages)
        digests.append(pageDigests: pages.digests(of: bytes), byteCount: bytes.count, by: pages)
        return digests
    }

    private func pieces(of bytes: [UInt8], _ size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    @Test(
        "A block of one page has the page's digest, and a larger block has the digest of its pages' digests",
        arguments: [0, 1, 4095, 4096, 50_000]
    )
    func blocks(count: Int) {
        let bytes = [UInt8].noise(count)
        for pages in [PageHash.plain, keyed] {
            func digest(_ page: [UInt8]) -> [UInt8] { pages.digests(of: page) }
            let whole = digests(of: bytes, blockSize: 4096, pages)
            #expect(whole.byteCount == Int64(count))
            #expect(whole.bytes == pieces(of: bytes, 4096).flatMap(digest))
            let larger = digests(of: bytes, blockSize: 16384, pages)
            #expect(
                larger.bytes == pieces(of: bytes, 16384).flatMap { digest(pieces(of: $0, 4096).flatMap(digest)) }
            )
            var inPieces = BlockDigests(blockSize: 16384, pages)
            for piece in pieces(of: bytes, 32768) {
                inPieces.append(pageDigests: digest(piece), byteCount: piece.count, by: pages)
            }
            #expect(inPieces == larger)
        }
    }

    @Test(
        "The digests of blocks are restored from their bytes, unless the size is wrong",
        arguments: [0, 1, 4095, 4096, 50_000]
    )
    func restored(count: Int) {
        let whole = digests(of: .noise(count), blockSize: 4096, keyed)
        #expect(BlockDigests(blockSize: 4096, byteCount: Int64(count), bytes: whole.bytes) == whole)
        for wrong in [Int64(count) + 4096, -1, .max, .min] {
            #expect(BlockDigests(blockSize: 4096, byteCount: wrong, bytes: whole.bytes) == nil)
        }
        for wrong in [0, -1, 4095, 5000, 2 << 20, .max] {
            #expect(BlockDigests(blockSize: wrong, byteCount: Int64(count), bytes: whole.bytes) == nil)
        }
    }

    @Test("The changed blocks are those of a comparison by bytes, as runs that don't touch", arguments: [4096, 8192])
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
            let found = digests(of: bytes, blockSize: size, keyed)
            let runs = found.blocksChanged(since: digests(of: former, blockSize: size, keyed))
            #expect(runs.flatMap(Array.init) == expected)
            #expect(zip(runs, runs.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
            for number in 0..<count {
                #expect(found.match(Array(block(number, of: bytes)), at: Int64(number * size), by: keyed))
                #expect(!found.match(block(number, of: bytes).map { $0 ^ 1 }, at: Int64(number * size), by: keyed))
            }
        }
    }
}

extension [UInt8] {
    /// Returns bytes that can't be compressed, the same for the same seed.
    fileprivate static func noise(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        var generator = SplitMix64(seed: seed)
        return .noise(count, using: &generator)
    }
}
