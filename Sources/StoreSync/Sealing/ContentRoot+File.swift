import ContentDigests
import FileSupport
import Foundation
import SystemPackage
import ThreadSupport

extension ContentRoot {
    /// Digests bytes in memory.
    static func of(_ bytes: some Sequence<UInt8>) -> ContentRoot {
        var hasher = ContentRootHasher()
        hasher.update(Array(bytes))
        return hasher.finalize()
    }

    /// Digests a download, on all cores.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - pages: How its pages are digested.
    ///   - executor: The executor that reads it.
    /// - Returns: Its length in bytes, and its root.
    /// - Throws: ``StoreSyncError/Code/cannotWrite`` if the file can't be read, ``StoreSyncError/Code/busy`` if it was removed;
    ///   `CancellationError`.
    static func of(
        fileAt url: URL,
        _ pages: PageHash,
        on executor: (any TaskExecutor)?
    ) async throws -> (byteCount: Int64, root: ContentRoot) {
        let (file, byteCount) = try await runBlocking(on: executor) {
            try StoreSnapshot.reading(url, or: .cannotWrite) {
                do {
                    let file = try OpenFile(path: url.path, O_RDONLY)
                    return (file, try file.status().size)
                } catch let error as Errno where error == .noSuchFileOrDirectory {
                    throw StoreSyncError.downloadRemoved(url.path)
                }
            }
        }
        let digests = try await FileDigester(pages).digests(ofBytes: byteCount, on: executor) { offset, count in
            try StoreSnapshot.reading(url, or: .cannotWrite) { try file.read(at: offset, upTo: count) }
        }
        return (digests.byteCount, digests.root)
    }
}
