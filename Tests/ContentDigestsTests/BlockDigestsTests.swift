import Foundation
import OperationsTesting
import TestSupport
import Testing

@testable import ContentDigests

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
        "a block of one page has the page's digest, and a larger block has the digest of its pages' digests",
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

    @Test("the changed blocks are those of a comparison by bytes, as runs that don't touch", arguments: [4096, 8192])
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

    private func pass(over bytes: [UInt8], since former: BlockDigests? = nil) -> FileDigests {
        var digester = FileDigester(blockSize: 4096, since: former)
        for (index, chunk) in pieces(of: bytes, 1 << 20).enumerated() {
            digester.append(ChunkDigests(of: chunk, at: index, chunkSize: 1 << 20, by: digester.pages))
        }
        return digester.finalize()
    }

    @Test("the digests of a former state don't affect the result, whatever changed")
    func since() {
        var generator = SplitMix64(seed: 11)
        let noise = [UInt8].noise((2 << 20) + 70_000)
        var former = pass(over: noise)
        for step in 0..<40 {
            var bytes = Array(noise.prefix(Int.random(in: 0...noise.count, using: &generator)))
            for _ in 0..<Int.random(in: 0...5, using: &generator) where !bytes.isEmpty {
                bytes[Int.random(in: bytes.indices, using: &generator)] ^= 1
            }
            let found = pass(over: bytes, since: former.blocks)
            #expect(found.root == pass(over: bytes).root, "step \(step)")
            #expect(found.blocks?.bytes == digests(of: bytes, blockSize: 4096).bytes)
            #expect(found.blocks?.fingerprints?.key == former.blocks?.fingerprints?.key)
            former = found
        }
    }

    @Test(
        "unchanged content isn't digested again, unless it moved or the key differs",
        .enabled(if: GMAC.isAvailable)
    )
    func known() throws {
        let bytes = [UInt8].noise((1 << 20) + 20_000)
        let blocks = try #require(pass(over: bytes).blocks)
        let fingerprints = try #require(blocks.fingerprints)
        let forged = [UInt8](repeating: 7, count: blocks.bytes.count)
        func former(_ key: [UInt8], _ fingerprints: [UInt8]) -> BlockDigests? {
            BlockDigests(blockSize: 4096, byteCount: blocks.byteCount, bytes: forged, fingerprints: (key, fingerprints))
        }
        // Digests that can't be real: pages that have them in the result weren't digested again.
        let known = try #require(former(fingerprints.key, fingerprints.bytes))
        var changed = bytes
        changed[100_000] ^= 1
        let found = try #require(pass(over: changed, since: known).blocks).bytes
        // A fingerprint covers 16 KiB: the four pages around the change are digested.
        let group = 100_000 / 16384 * 128..<(100_000 / 16384 + 1) * 128
        #expect(found[group].elementsEqual(digests(of: changed, blockSize: 4096).bytes[group]))
        #expect(found[..<group.lowerBound].allSatisfy { $0 == 7 } && found[group.upperBound...].allSatisfy { $0 == 7 })

        let moved = bytes.dropFirst(16384) + bytes.prefix(16384)
        let otherKey = try #require(former([UInt8](repeating: 1, count: 32), fingerprints.bytes))
        for (bytes, former) in [(Array(moved), known), (bytes, otherKey)] {
            let found = pass(over: bytes, since: former).blocks
            #expect(found?.bytes == digests(of: bytes, blockSize: 4096).bytes)
        }
    }

    @Test("fingerprints of a wrong size are refused, and all fingerprints if blocks aren't pages")
    func wrongFingerprints() {
        let bytes = [UInt8](repeating: 0, count: 5 * 32)
        func digests(_ blockSize: Int, _ fingerprints: (key: [UInt8], bytes: [UInt8])) -> BlockDigests? {
            BlockDigests(
                blockSize: blockSize,
                byteCount: Int64(5 * blockSize),
                bytes: bytes,
                fingerprints: fingerprints
            )
        }
        let key = [UInt8](repeating: 0, count: 32)
        #expect(digests(4096, (key, [UInt8](repeating: 0, count: 32))) != nil)
        for count in [0, 16, 31, 33, 48] {
            #expect(digests(4096, (key, [UInt8](repeating: 0, count: count))) == nil)
        }
        #expect(digests(4096, (key + [0], [UInt8](repeating: 0, count: 32))) == nil)
        #expect(digests(16384, (key, [UInt8](repeating: 0, count: 80))) == nil)
    }
}

extension [UInt8] {
    /// Returns bytes that can't be compressed, the same for the same seed.
    fileprivate static func noise(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        var generator = SplitMix64(seed: seed)
        return .noise(count, using: &generator)
    }
}
