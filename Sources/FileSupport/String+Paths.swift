package import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension String {
    /// This path without symbolic links, in the form that it's remembered by; `nil` if nothing exists there.
    package var canonicalPath: String? {
        guard let resolved = realpath(self, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved).asKey
    }

    /// Whether the disk that holds this path lacks room for another small file; `false` if the file system can't tell.
    package var isOnFullDisk: Bool {
        var status = statvfs()
        guard statvfs(self, &status) == 0, status.f_blocks > 0 else { return false }
        let freeBytes = UInt64(status.f_bavail) * UInt64(status.f_frsize)
        // A file system without a limit of files says that it has none.
        return freeBytes < 64 << 10 || status.f_files > 0 && status.f_favail == 0
    }

    /// Reads the status of the file at this path.
    ///
    /// - Parameter followsLinks: Whether a symbolic link at the path is followed.
    /// - Returns: The status; `nil` if nothing exists there.
    /// - Throws: `Errno` if the file system can't tell, as in a directory that this user can't search.
    package func fileStatus(followsLinks: Bool = true) throws(Errno) -> Stat? {
        do {
            return try Stat(self, followTargetSymlink: followsLinks)
        } catch let error where error.isAbsent {
            return nil
        }
    }
}
