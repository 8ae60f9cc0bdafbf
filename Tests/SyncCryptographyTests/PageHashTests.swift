import ByteCoding
import ContentDigests
import Foundation
import Testing

@testable import SyncCryptography

@Suite("The digests of pages")
struct PageHashTests {
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
