package import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension Stat {
    /// Whether both are the status of one file, whatever its paths.
    package func isOfSameFile(as other: Stat) -> Bool { inode == other.inode && deviceID == other.deviceID }
}

/// A file descriptor that is closed when its last reference is released.
package final class OpenFile: Sendable {
    package let descriptor: FileDescriptor

    /// Takes ownership of the descriptor that a system call returns, or throws the call's error.
    init(_ call: () -> CInt) throws(Errno) {
        descriptor = FileDescriptor(rawValue: try retrying(call))
    }

    /// Opens or creates the file at a path of the file system.
    ///
    /// - Parameters:
    ///   - path: The path.
    ///   - flags: The flags of `open(2)`. Programs that this process starts never inherit the descriptor.
    ///   - permissions: The permissions of a new file.
    /// - Throws: The error of `open(2)`.
    package convenience init(
        path: String,
        _ flags: CInt,
        permissions: FilePermissions = .ownerReadWrite
    ) throws(Errno) {
        try self.init { open(path, flags | O_CLOEXEC, permissions.rawValue) }
    }

    /// Creates a file at a path where nothing exists, and opens it for writing.
    package convenience init(creating path: String, permissions: FilePermissions = .ownerReadWrite) throws(Errno) {
        try self.init(path: path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, permissions: permissions)
    }

    deinit {
        try? descriptor.close()
    }

    package func status() throws(Errno) -> Stat {
        try Stat(descriptor)
    }

    /// Whether a path leads to this file.
    package func isAt(_ path: String) -> Bool {
        guard let own = try? status(), let other = try? Stat(path) else { return false }
        return own.isOfSameFile(as: other)
    }

    /// Reads bytes from an offset; fewer than `count` only at the end of the file.
    package func read(at offset: Int64, upTo count: Int) throws(Errno) -> [UInt8] {
        try throwingErrno {
            try [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
                while initialized < count {
                    let bytes = UnsafeMutableRawBufferPointer(buffer)
                    let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[initialized...])
                    let read = try descriptor.read(fromAbsoluteOffset: offset + Int64(initialized), into: rest)
                    guard read > 0 else { return }
                    initialized += read
                }
            }
        }
    }

    /// Writes all bytes at the file's position.
    package func write(_ bytes: some Sequence<UInt8>) throws(Errno) {
        _ = try throwingErrno { try descriptor.writeAll(bytes) }
    }

    /// Writes all bytes at an offset.
    package func write(_ bytes: some Sequence<UInt8>, at offset: Int64) throws(Errno) {
        _ = try throwingErrno { try descriptor.writeAll(toAbsoluteOffset: offset, bytes) }
    }

    /// Cuts the file after its first `count` bytes.
    package func truncate(to count: Int64) throws(Errno) {
        try retrying { ftruncate(descriptor.rawValue, off_t(count)) }
    }

    /// Sets the file's permissions, whatever the process's umask is.
    package func setPermissions(_ permissions: FilePermissions) throws(Errno) {
        try retrying { fchmod(descriptor.rawValue, permissions.rawValue) }
    }

    /// Waits until the written bytes, or the names in a directory, are on the medium, if the file system supports that.
    package func synchronize() throws(Errno) {
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

    /// Creates a file that shares another one's blocks, until either is written to.
    ///
    /// Only its owner may use the new file.
    ///
    /// - Parameters:
    ///   - path: The other file. It's opened, so SQLite mustn't have it open in this process.
    ///   - newPath: A path at which nothing exists.
    /// - Returns: Whether the file system can do that, as Btrfs, XFS and APFS can. If not, nothing is created.
    package static func clone(_ path: String, creating newPath: String) -> Bool {
        guard let source = try? OpenFile(path: path, O_RDONLY) else { return false }
        #if canImport(Darwin)
        guard fclonefileat(source.descriptor.rawValue, AT_FDCWD, newPath, 0) == 0 else { return false }
        let isShared = chmod(newPath, 0o600) == 0
        #else
        guard let clone = try? OpenFile(creating: newPath) else { return false }
        // FICLONE, a macro that Swift doesn't import.
        let isShared = ioctl(clone.descriptor.rawValue, 0x4004_9409, source.descriptor.rawValue) == 0
        #endif
        guard isShared, let size = try? source.status().size, size == (try? Stat(newPath).size) else {
            unlink(newPath)
            return false
        }
        return true
    }

    // MARK: Locks

    /// Whether other open files may hold the lock at the same time.
    package enum LockMode {
        case shared, exclusive
    }

    /// Takes the file's lock, which ends when the file is closed, at the latest with the process.
    ///
    /// - Parameters:
    ///   - mode: Whether other open files may hold it too.
    ///   - waits: Whether to wait while another open file holds it.
    /// - Returns: Whether the lock was taken; `false` only if another open file holds it.
    /// - Throws: The error of `flock(2)`.
    package func lock(_ mode: LockMode = .exclusive, waits: Bool = false) throws(Errno) -> Bool {
        do {
            let operation = mode == .shared ? LOCK_SH : LOCK_EX
            try retrying { flock(descriptor.rawValue, operation | (waits ? 0 : LOCK_NB)) }
            return true
        } catch let error where error == .wouldBlock {
            return false
        }
    }

    /// Releases the lock at once, even if a program that is being started holds a copy of the descriptor.
    package func unlock() {
        _ = flock(descriptor.rawValue, LOCK_UN)
    }
}

extension FilePermissions {
    /// The permissions that the umask reduces to those of new files.
    package static let defaultOfFiles = FilePermissions(rawValue: 0o666)
}
