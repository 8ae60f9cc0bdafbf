package import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import CLinux
import Glibc
#endif

/// An open directory, and the system calls on the names in it.
///
/// Each call takes a single path component and doesn't follow symbolic links. So no call leaves the directory, even if
/// another program replaces names by links at the same time.
package struct Directory: Sendable {
    private let file: OpenFile

    /// Opens the directory at a path of the file system, following links.
    package init(path: String) throws(Errno) {
        file = try OpenFile { openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    }

    private init(_ file: OpenFile) {
        self.file = file
    }

    /// Opens a directory in this one.
    ///
    /// - Throws: `ELOOP` for a symbolic link, where Linux itself reports `ENOTDIR`, as it does for a file.
    package func directory(_ name: UnsafePointer<CChar>) throws(Errno) -> Directory {
        do {
            return Directory(try open(name, O_RDONLY | O_DIRECTORY))
        } catch let error where error == .notDirectory {
            if try status(name)?.type == .symbolicLink { throw .tooManySymbolicLinkLevels }
            throw error
        }
    }

    /// Opens a file for reading.
    package func openToRead(_ name: UnsafePointer<CChar>) throws(Errno) -> OpenFile {
        // Without O_NONBLOCK, opening a pipe that another program put here would wait for a writer forever.
        try open(name, O_RDONLY | O_NONBLOCK)
    }

    /// Creates a file that mustn't exist, and opens it for writing.
    package func create(
        _ name: UnsafePointer<CChar>,
        permissions: FilePermissions = .defaultOfFiles
    ) throws(Errno) -> OpenFile {
        try open(name, O_WRONLY | O_CREAT | O_EXCL, permissions)
    }

    /// Opens a file for appending, and creates it if it doesn't exist.
    package func openToAppend(_ name: UnsafePointer<CChar>) throws(Errno) -> OpenFile {
        try open(name, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK)
    }

    /// Opens a file to take its lock, which network file systems grant only if the file could be written.
    package func openToLock(_ name: UnsafePointer<CChar>) throws(Errno) -> OpenFile {
        try open(name, O_RDWR | O_NONBLOCK)
    }

    private func open(
        _ name: UnsafePointer<CChar>,
        _ flags: CInt,
        _ permissions: FilePermissions = .defaultOfFiles
    ) throws(Errno) -> OpenFile {
        try OpenFile {
            openat(file.descriptor.rawValue, name, flags | O_NOFOLLOW | O_CLOEXEC, permissions.rawValue)
        }
    }

    /// Returns the status of the directory itself.
    package func status() throws(Errno) -> Stat {
        try file.status()
    }

    /// Returns the status of the item with this name; `nil` if the name doesn't exist.
    package func status(_ name: UnsafePointer<CChar>) throws(Errno) -> Stat? {
        do {
            return try Stat(name, relativeTo: file.descriptor, flags: .symlinkNoFollow)
        } catch let error where error == .noSuchFileOrDirectory {
            return nil
        }
    }

    /// Returns all names as bytes, because a name needn't be UTF-8.
    package func names() throws(Errno) -> [[CChar]] {
        // A second descriptor, because each call needs its own reading position; closedir closes it.
        let descriptor = try retrying {
            openat(file.descriptor.rawValue, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        }
        guard let stream = fdopendir(descriptor) else {
            let error = Errno(rawValue: errno)
            close(descriptor)
            throw error
        }
        defer { closedir(stream) }
        var names: [[CChar]] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                guard errno == 0 else { throw Errno(rawValue: errno) }
                return names
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 1) { name in
                    Array(UnsafeBufferPointer(start: name, count: strlen(name) + 1))
                }
            }
            if strcmp(name, ".") != 0, strcmp(name, "..") != 0 { names.append(name) }
        }
    }

    /// Creates a directory in this one; an existing directory isn't an error, since another client may create it too.
    package func makeDirectory(_ name: UnsafePointer<CChar>) throws(Errno) {
        do {
            try createDirectory(name, permissions: FilePermissions(rawValue: 0o777))
        } catch let error where error == .fileExists {
            return
        }
    }

    /// Creates a directory that mustn't exist in this one.
    package func createDirectory(_ name: UnsafePointer<CChar>, permissions: FilePermissions) throws(Errno) {
        try retrying { mkdirat(file.descriptor.rawValue, name, permissions.rawValue) }
    }

    /// Gives a file a second name, which mustn't exist.
    package func link(_ name: UnsafePointer<CChar>, to other: Directory, _ newName: UnsafePointer<CChar>) throws(Errno)
    {
        try retrying { linkat(file.descriptor.rawValue, name, other.file.descriptor.rawValue, newName, 0) }
    }

    /// Gives an item another name, and replaces the item that had that name.
    package func rename(_ name: UnsafePointer<CChar>, to other: Directory, _ newName: UnsafePointer<CChar>)
        throws(Errno)
    {
        try retrying { renameat(file.descriptor.rawValue, name, other.file.descriptor.rawValue, newName) }
    }

    /// Gives an item another name, which mustn't exist, by the system call for that.
    ///
    /// - Throws: `EEXIST`, or an error with ``Errno/isUnsupported`` if the file system can't do that.
    package func renameIfSupported(
        _ name: UnsafePointer<CChar>,
        to other: Directory,
        _ newName: UnsafePointer<CChar>
    ) throws(Errno) {
        let (source, destination) = (file.descriptor.rawValue, other.file.descriptor.rawValue)
        #if canImport(Darwin)
        try retrying { renameatx_np(source, name, destination, newName, UInt32(RENAME_EXCL)) }
        #else
        try retrying { renameat2(source, name, destination, newName, RENAME_NOREPLACE) }
        #endif
    }

    /// Gives a file another name in this directory, which mustn't exist, on every file system.
    ///
    /// Where a file system can neither rename exclusively nor link, the directory's lock excludes other callers of this
    /// method, but no other program.
    ///
    /// - Throws: `EEXIST`, or the error of the call.
    package func renameExclusively(_ name: String, _ newName: String) throws(Errno) {
        do {
            try renameIfSupported(name, to: self, newName)
        } catch let error where error.isUnsupported {
            do {
                try link(name, to: self, newName)
            } catch let error where error != .fileExists {
                return try renameUnderLock(name, newName)
            }
            try unlink(name)
        }
    }

    /// Gives a file another name, which mustn't exist, while the directory is locked.
    private func renameUnderLock(_ name: String, _ newName: String) throws(Errno) {
        // A descriptor of its own, since threads with the same descriptor share its lock.
        let lock = try directory(".").file
        do {
            _ = try lock.lock(waits: true)
        } catch let error where error.isUnsupported {
            // Without locks, nothing closes the gap between the check and the rename.
        }
        defer { lock.unlock() }
        guard try status(newName) == nil else { throw .fileExists }
        try rename(name, to: self, newName)
    }

    /// Removes the name of a file or a symbolic link; a missing name isn't an error.
    package func unlink(_ name: UnsafePointer<CChar>) throws(Errno) {
        try remove(name, flags: 0)
    }

    /// Removes an empty directory; a missing directory isn't an error.
    package func removeDirectory(_ name: UnsafePointer<CChar>) throws(Errno) {
        try remove(name, flags: AT_REMOVEDIR)
    }

    private func remove(_ name: UnsafePointer<CChar>, flags: CInt) throws(Errno) {
        do {
            try retrying { unlinkat(file.descriptor.rawValue, name, flags) }
        } catch let error where error == .noSuchFileOrDirectory {
            return
        }
    }

    /// Waits until the names are on the medium.
    package func synchronize() throws(Errno) {
        try file.synchronize()
    }
}
