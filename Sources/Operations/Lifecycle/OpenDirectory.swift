#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The error of a failed system call.
struct SystemError: Error, CustomStringConvertible {
    let number: CInt

    var description: String { String(cString: strerror(number)) }
}

/// Makes a system call, and repeats it if a signal interrupts it.
@discardableResult
private func calling(_ call: () -> CInt) throws(SystemError) -> CInt {
    while true {
        let result = call()
        guard result < 0 else { return result }
        guard errno == EINTR else { throw SystemError(number: errno) }
    }
}

/// A file descriptor that is closed with its last reference, and in programs that this process starts.
final class Descriptor: Sendable {
    let number: CInt

    fileprivate init(_ call: () -> CInt) throws(SystemError) {
        number = try calling(call)
    }

    deinit {
        close(number)
    }

    /// Takes the file's lock unless another open file description holds it.
    ///
    /// - Returns: Whether the lock was taken. It is released when the descriptor is closed, at the latest when the process
    ///   ends. A program that is being started holds a copy of the descriptor, and so the lock, for a moment.
    func lock() throws(SystemError) -> Bool {
        do {
            try calling { flock(number, LOCK_EX | LOCK_NB) }
            return true
        } catch  where error.number == EWOULDBLOCK {
            return false
        }
    }

    func status() throws(SystemError) -> stat {
        var status = stat()
        try calling { fstat(number, &status) }
        return status
    }
}

/// An open directory; the names in it are resolved relative to it.
///
/// No call follows a symbolic link in the directory.
struct OpenDirectory: Sendable {
    private let descriptor: Descriptor

    /// Opens the directory at a path; symbolic links in the path are followed.
    init(path: String) throws(SystemError) {
        descriptor = try Descriptor { open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    }

    private init(_ name: UnsafePointer<CChar>, in parent: OpenDirectory) throws(SystemError) {
        descriptor = try parent.openFile(name, O_RDONLY | O_DIRECTORY)
    }

    private var number: CInt { descriptor.number }

    func openFile(_ name: UnsafePointer<CChar>, _ flags: CInt) throws(SystemError) -> Descriptor {
        // Without O_NONBLOCK, opening a named pipe would wait for its other end.
        try Descriptor { openat(number, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600) }
    }

    func makeDirectory(_ name: UnsafePointer<CChar>) throws(SystemError) {
        try calling { mkdirat(number, name, 0o700) }
    }

    /// The status of the entry with this name; of the link itself, if the entry is a symbolic link.
    func status(_ name: UnsafePointer<CChar>) throws(SystemError) -> stat {
        var status = stat()
        try calling { fstatat(number, name, &status, AT_SYMLINK_NOFOLLOW) }
        return status
    }

    /// The names in the directory, as raw bytes, because a name need not be UTF-8.
    func names() throws(SystemError) -> [[CChar]] {
        // A separate descriptor with its own position, which closedir closes.
        let descriptor = try calling { openat(number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        guard let stream = fdopendir(descriptor) else {
            let error = SystemError(number: errno)
            close(descriptor)
            throw error
        }
        defer { closedir(stream) }
        var names: [[CChar]] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 1) { name in
                    Array(UnsafeBufferPointer(start: name, count: strlen(name) + 1))
                }
            }
            if strcmp(name, ".") != 0, strcmp(name, "..") != 0 { names.append(name) }
        }
        return names
    }

    func removeFile(_ name: UnsafePointer<CChar>) {
        _ = unlinkat(number, name, 0)
    }

    /// Removes a directory that this user owns, and as much of its content as can be removed.
    ///
    /// - Returns: Whether no directory with this name exists any more.
    func removeTree(_ name: UnsafePointer<CChar>) -> Bool {
        do {
            let directory = try OpenDirectory(name, in: self)
            guard try directory.descriptor.status().st_uid == geteuid() else { return false }
            directory.removeContents()
        } catch {
            return error.number == ENOENT
        }
        return unlinkat(number, name, AT_REMOVEDIR) == 0
    }

    private func removeContents() {
        for name in (try? names()) ?? [] {
            guard let status = try? status(name) else { continue }
            if status.st_mode & S_IFMT == S_IFDIR {
                try? OpenDirectory(name, in: self).removeContents()
                _ = unlinkat(number, name, AT_REMOVEDIR)
            } else {
                removeFile(name)
            }
        }
    }
}
