import ByteCoding
import ContentDigests
import Foundation
import Testing

@testable import SyncCryptography

@Suite("The digests of a file on all cores")
struct FileDigestsTests {
    @Test("A pass over a file computes its root and the digests of its blocks, whatever pieces it comes in")
    func pass() async throws {
        let pages = EpochKey(master: MasterKey(), epoch: UUID()).pageHash
        let bytes = [UInt8].noise((3 << 20) + 5000)
        let source = Pieces(bytes: bytes, sizes: [100_000])
        let found = try await SealingWorkers.withWorkers {
            try await FileDigests.of(source, blockSize: 8192, pages, on: $0)
        }
        var digester = FileDigester(blockSize: 8192, pages)
        for start in stride(from: 0, to: bytes.count, by: 1 << 20) {
            let chunk = Array(bytes[start..<min(start + (1 << 20), bytes.count)])
            digester.append(ChunkDigests(of: chunk, chunkSize: 1 << 20, by: pages))
        }
        #expect(found == digester.finalize() && found.blocks?.byteCount == Int64(bytes.count))
        var hasher = ContentRootHasher(pages)
        hasher.update(bytes)
        #expect(found.root == hasher.finalize() && found.byteCount == Int64(bytes.count))
    }

    @Test("The key of the pages' digests is derived as the format says, and each application has its own")
    func key() throws {
        let master = try MasterKey(SecretBytes(copying: [UInt8](0..<32)))
        let expected = try #require(
            [UInt8](hexadecimal: "eabee6ee4b95e60da04ab0977016395a3c949e0eb0e500d5d91fdf19c3fcfc98".utf8)
        )
        let pages = EpochKey(master: master, epoch: UUID()).pageHash
        #expect(pages == expected.withUnsafeBytes { PageHash(key: $0) })
        #expect(pages != EpochKey(master: MasterKey(), epoch: UUID()).pageHash)
    }
}
