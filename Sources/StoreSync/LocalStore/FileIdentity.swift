import Foundation

/// What the file system knows a file by, whatever its name: device and inode.
struct FileIdentity: Hashable, Sendable, Codable {
    private let device: Int64
    private let inode: UInt64

    init(_ status: stat) {
        device = Int64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(status.st_ino)
    }
}

extension LocalStore {
    /// What the file system knows the file by; `nil` if it isn't there.
    var file: FileIdentity? { status.map(FileIdentity.init) }
}
