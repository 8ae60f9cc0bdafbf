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
}
