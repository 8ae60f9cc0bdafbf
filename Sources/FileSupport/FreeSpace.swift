package import Foundation

/// The room that is left on a disk.
package struct FreeSpace: Equatable {
    /// The number of free bytes.
    package var byteCount: UInt64
    /// How many more files there can be; `nil` if the file system has no limit.
    package var fileCount: UInt64?

    /// Whether there is no room for another small file.
    package var isExhausted: Bool { byteCount < 64 << 10 || fileCount == 0 }

    package init(byteCount: UInt64, fileCount: UInt64?) { (self.byteCount, self.fileCount) = (byteCount, fileCount) }

    /// Reads what Foundation says of a file system; `nil` if it says nothing, or that the file system has no bytes at all.
    package init?(attributes: [FileAttributeKey: Any]) {
        guard let size = attributes[.systemSize] as? UInt64, size > 0,
            let byteCount = attributes[.systemFreeSize] as? UInt64
        else { return nil }
        // A file system without a limit of files says that it has none.
        let hasLimit = (attributes[.systemNodes] as? UInt64 ?? 0) > 0
        self.init(byteCount: byteCount, fileCount: hasLimit ? attributes[.systemFreeNodes] as? UInt64 : nil)
    }

    /// Asks for the room on the disk that holds a path; `nil` if nothing exists there, or the file system can't tell.
    package init?(atPath path: String) {
        guard let attributes = try? FileManager.default.attributesOfFileSystem(forPath: path) else { return nil }
        self.init(attributes: attributes)
    }
}
