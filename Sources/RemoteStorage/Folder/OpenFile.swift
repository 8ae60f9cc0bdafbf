import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A file descriptor that is closed when its last reference is released.
final class OpenFile: Sendable {
    let descriptor: FileDescriptor

    /// Takes ownership of the descriptor that a system call returns, or throws the call's error.
    init(_ call: () -> CInt) throws(Errno) {
        descriptor = FileDescriptor(rawValue: try retrying(call))
    }

    deinit {
        try? descriptor.close()
    }

    func status() throws(Errno) -> Stat {
        try Stat(descriptor)
    }

    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            initialized = try descriptor.read(
                fromAbsoluteOffset: offset,
                into: UnsafeMutableRawBufferPointer(buffer)
            )
        }
    }

    func write(_ bytes: [UInt8]) throws {
        try descriptor.writeAll(bytes)
    }

    /// Locks the file while it's open; returns whether the lock was free.
    func lock() -> Bool {
        flock(descriptor.rawValue, LOCK_EX | LOCK_NB) == 0
    }

    /// Releases the lock at once, even if a program that is being started holds a copy of the descriptor.
    func unlock() {
        _ = flock(descriptor.rawValue, LOCK_UN)
    }

    /// Cuts the file after its first `count` bytes.
    func truncate(to count: Int64) throws(Errno) {
        try retrying { ftruncate(descriptor.rawValue, off_t(count)) }
    }

    /// Waits until the written bytes are on the medium, if the file system supports that.
    func synchronize() throws(Errno) {
        do {
            #if canImport(Darwin)
            // On Darwin, fsync(2) leaves the data in the drive's cache.
            if fcntl(descriptor.rawValue, F_FULLFSYNC) == 0 { return }
            #endif
            try retrying { fsync(descriptor.rawValue) }
        } catch let error where error.isUnsupported {
            return
        }
    }
}

/// Repeats a system call while signals interrupt it.
///
/// - Returns: The call's result.
/// - Throws: The call's error.
@discardableResult
func retrying(_ call: () -> CInt) throws(Errno) -> CInt {
    while true {
        let result = call()
        guard result < 0 else { return result }
        let error = Errno(rawValue: errno)
        guard error == .interrupted else { throw error }
    }
}

/// `EOPNOTSUPP`, which differs from `ENOTSUP` on Darwin but means the same here.
private let operationNotSupported = Errno(rawValue: EOPNOTSUPP)

extension Errno {
    /// Whether the file system doesn't support the call, or not with these arguments.
    var isUnsupported: Bool {
        [.notSupported, operationNotSupported, .noFunction, .invalidArgument].contains(self)
    }

    /// Whether a hard link is impossible: unsupported here, not allowed for this file, or across file systems.
    var isNoHardLink: Bool {
        isUnsupported || self == .notPermitted || self == .improperLink || self == .tooManyLinks
    }

    /// Whether the error means that a name doesn't exist.
    var isAbsent: Bool {
        self == .noSuchFileOrDirectory || self == .notDirectory
    }
}
