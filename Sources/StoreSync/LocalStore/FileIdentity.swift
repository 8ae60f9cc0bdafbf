import Foundation

#if os(Linux)
import CLinux
#endif

/// Identifies a file independently of its name: by device, inode and time of birth.
///
/// File systems reuse the inode of a removed file, so the two numbers alone aren't enough.
struct FileIdentity: Hashable, Sendable, Codable {
    private let device: UInt64
    private let inode: UInt64
    /// When the file was created, in nanoseconds; 0 if the file system doesn't record it.
    let birth: Int64

    /// Whether both are probably one file, perhaps on a file system that got another number when it was mounted again.
    func isProbably(_ other: FileIdentity) -> Bool { inode == other.inode && birth == other.birth }

    /// Reads the identity of the file at a path, without following a symbolic link; `nil` if nothing exists there.
    init?(atPath path: String) {
        #if os(Linux)
        var status = statx()
        let wanted = UInt32(STATX_INO) | UInt32(STATX_BTIME)
        guard extendedStatus(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, wanted, &status) == 0 else { return nil }
        device = UInt64(status.stx_dev_major) << 32 | UInt64(status.stx_dev_minor)
        inode = status.stx_ino
        let isKnown = status.stx_mask & UInt32(STATX_BTIME) != 0
        birth = isKnown ? status.stx_btime.tv_sec &* 1_000_000_000 &+ Int64(status.stx_btime.tv_nsec) : 0
        #else
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        device = UInt64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(status.st_ino)
        birth = Int64(status.st_birthtimespec.tv_sec) &* 1_000_000_000 &+ Int64(status.st_birthtimespec.tv_nsec)
        #endif
    }
}

extension LocalStore {
    /// The file's identity; `nil` if the file doesn't exist.
    var file: FileIdentity? { FileIdentity(atPath: url.path) }
}
