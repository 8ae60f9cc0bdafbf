package import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Repeats a system call while signals interrupt it.
///
/// - Returns: The call's result.
/// - Throws: The call's error.
@discardableResult
package func retrying(_ call: () -> CInt) throws(Errno) -> CInt {
    while true {
        let result = call()
        guard result < 0 else { return result }
        let error = Errno(rawValue: errno)
        guard error == .interrupted else { throw error }
    }
}

/// Runs calls of swift-system, which throw only `Errno` but don't declare it.
func throwingErrno<Result>(_ body: () throws -> Result) throws(Errno) -> Result {
    do {
        return try body()
    } catch {
        throw error as? Errno ?? .ioError
    }
}

/// `EOPNOTSUPP`, which differs from `ENOTSUP` on Darwin but means the same here.
private let operationNotSupported = Errno(rawValue: EOPNOTSUPP)

extension Errno {
    /// Whether the file system doesn't support the call, or not with these arguments.
    package var isUnsupported: Bool {
        [.notSupported, operationNotSupported, .noFunction, .invalidArgument].contains(self)
    }

    /// Whether a hard link is impossible: unsupported here, not allowed for this file, or across file systems.
    package var isNoHardLink: Bool {
        isUnsupported || self == .notPermitted || self == .improperLink || self == .tooManyLinks
    }

    /// Whether the error means that a name doesn't exist.
    package var isAbsent: Bool {
        self == .noSuchFileOrDirectory || self == .notDirectory
    }
}
