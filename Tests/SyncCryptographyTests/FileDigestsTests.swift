import ContentDigests
import Testing

@testable import SyncCryptography

@Suite("The digests of a file on all cores")
struct FileDigestsTests {
    @Test("a pass over a file computes its root and the digests of its blocks, whatever pieces it comes in")
    func pass() async throws {
        let bytes = [UInt8].noise((3 << 20) + 5000)
        let source = Pieces(bytes: bytes, sizes: [100_000])
        let found = try await SealingWorkers.withWorkers {
            try await FileDigests.of(source, blockSize: 8192, on: $0)
        }
        var blocks = BlockDigests(blockSize: 8192)
        blocks.update(bytes)
        #expect(found.blocks == blocks)
        var hasher = ContentRootHasher()
        hasher.update(bytes)
        #expect(found.root == hasher.finalize() && found.byteCount == Int64(bytes.count))
    }
}
