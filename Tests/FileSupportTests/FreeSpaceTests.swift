import FileSupport
import Foundation
import Testing

@Suite("The room that is left on a disk")
struct FreeSpaceTests {
    @Test("A disk is full without 64 KiB of room, or if it can hold no more files")
    func exhausted() {
        #expect(FreeSpace(byteCount: (64 << 10) - 1, fileCount: 1).isExhausted)
        #expect(FreeSpace(byteCount: 64 << 10, fileCount: 0).isExhausted)
        #expect(!FreeSpace(byteCount: 64 << 10, fileCount: 1).isExhausted)
        #expect(!FreeSpace(byteCount: 64 << 10, fileCount: nil).isExhausted)
    }

    @Test("A file system that counts no files has no limit of them, and one without a size tells nothing")
    func unknown() {
        func space(size: UInt64, files: UInt64) -> FreeSpace? {
            FreeSpace(attributes: [
                .systemSize: size, .systemFreeSize: UInt64(7), .systemNodes: files, .systemFreeNodes: UInt64(0),
            ])
        }
        #expect(space(size: 10, files: 10) == FreeSpace(byteCount: 7, fileCount: 0))
        #expect(space(size: 10, files: 0) == FreeSpace(byteCount: 7, fileCount: nil))
        #expect(space(size: 0, files: 0) == nil)
        #expect(FreeSpace(attributes: [:]) == nil)
    }

    @Test("Foundation tells the room of the disk with temporary files, and none of a path where nothing exists")
    func asked() {
        let directory = FileManager.default.temporaryDirectory.path
        #expect(FreeSpace(atPath: directory).map { !$0.isExhausted } == true)
        #expect(FreeSpace(atPath: "\(directory)/missing-\(UUID())") == nil)
    }
}
