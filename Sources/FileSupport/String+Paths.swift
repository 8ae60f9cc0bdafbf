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

    /// Whether a file exists at this path.
    package var fileExists: Bool {
        get throws(Errno) { try fileStatus() != nil }
    }
}
