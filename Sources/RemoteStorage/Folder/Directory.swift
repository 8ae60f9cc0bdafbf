import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

#if !canImport(Darwin)
// Swift's Glibc module shows neither renameat2(2) nor its flag.
private typealias RenameAt2 =
    @convention(c) (CInt, UnsafePointer<CChar>, CInt, UnsafePointer<CChar>, CUnsignedInt) -> CInt
private let renameat2 = dlsym(nil, "renameat2").map { unsafeBitCast($0, to: RenameAt2.self) }
private let renameNoReplace: CUnsignedInt = 1
#endif

/// A directory held open, and what can be done with the names in it.
///
/// No call takes more than one name and none follows a symbolic link, so that nothing leads out of the directory, even
/// while somebody exchanges names for links.
struct Directory: Sendable {
    private let file: OpenFile

    /// Opens the directory at a path of the file system, whose links are followed.
    init(path: String) throws(Errno) {
        file = try OpenFile { openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    }

    private init(_ file: OpenFile) {
        self.file = file
    }

    /// Opens a directory in this one.
    ///
    /// - Throws: `ELOOP` for a symbolic link; Linux itself says `ENOTDIR`, as of a file.
    func directory(_ name: UnsafePointer<CChar>) throws(Errno) -> Directory {
        do {
            return Directory(try open(name, O_RDONLY | O_DIRECTORY))
        } catch let error where error == .notDirectory {
            if try status(name)?.type == .symbolicLink { throw .tooManySymbolicLinkLevels }
            throw error
        }
    }

    /// Opens a file to be read.
    func openToRead(_ name: UnsafePointer<CChar>) throws(Errno) -> OpenFile {
        // Without O_NONBLOCK, opening a pipe that somebody put here would wait for a writer for ever.
        try open(name, O_RDONLY | O_NONBLOCK)
    }

    /// Makes a file that isn't there yet, and opens it to be written.
    func create(_ name: UnsafePointer<CChar>) throws(Errno) -> OpenFile {
        try open(name, O_WRONLY | O_CREAT | O_EXCL)
    }

    /// Opens a file, which is made if it isn't there, to be written on at its end.
    func openToAppend(_ name: UnsafePointer<CChar>) throws(Errno) -> OpenFile {
        try open(name, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK)
    }

    private func open(_ name: UnsafePointer<CChar>, _ flags: CInt) throws(Errno) -> OpenFile {
        try OpenFile { openat(file.descriptor.rawValue, name, flags | O_NOFOLLOW | O_CLOEXEC, 0o666) }
    }

    /// What the directory itself is.
    func status() throws(Errno) -> Stat {
        try file.status()
    }

    /// What has this name; `nil` if nothing has.
    func status(_ name: UnsafePointer<CChar>) throws(Errno) -> Stat? {
        do {
            return try Stat(name, relativeTo: file.descriptor, flags: .symlinkNoFollow)
        } catch let error where error == .noSuchFileOrDirectory {
            return nil
        }
    }

    /// All names, as the bytes that they are: not each need be UTF-8.
    func names() throws(Errno) -> [[CChar]] {
        // Opened anew for a reading position of its own; closedir closes it.
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

    /// Makes a directory in this one; that somebody else makes it at the same time is fine.
    func makeDirectory(_ name: UnsafePointer<CChar>) throws(Errno) {
        do {
            try retrying { mkdirat(file.descriptor.rawValue, name, 0o777) }
        } catch let error where error == .fileExists {
            return
        }
    }

    /// Gives a file a second name, which isn't there yet.
    func link(_ name: UnsafePointer<CChar>, to other: Directory, _ newName: UnsafePointer<CChar>) throws(Errno) {
        try retrying { linkat(file.descriptor.rawValue, name, other.file.descriptor.rawValue, newName, 0) }
    }

    /// Gives something another name, and replaces what had it.
    func rename(_ name: UnsafePointer<CChar>, to other: Directory, _ newName: UnsafePointer<CChar>) throws(Errno) {
        try retrying { renameat(file.descriptor.rawValue, name, other.file.descriptor.rawValue, newName) }
    }

    /// Gives something another name, which isn't there yet.
    ///
    /// - Throws: `EEXIST`, or what ``Errno/isUnsupported`` tells where the file system can't do that.
    func renameExclusively(
        _ name: UnsafePointer<CChar>,
        to other: Directory,
        _ newName: UnsafePointer<CChar>
    ) throws(Errno) {
        let (source, destination) = (file.descriptor.rawValue, other.file.descriptor.rawValue)
        #if canImport(Darwin)
        try retrying { renameatx_np(source, name, destination, newName, UInt32(RENAME_EXCL)) }
        #else
        guard let renameat2 else { throw .noFunction }
        try retrying { renameat2(source, name, destination, newName, renameNoReplace) }
        #endif
    }

    /// Takes a name away from a file or a symbolic link; that it isn't there is fine.
    func unlink(_ name: UnsafePointer<CChar>) throws(Errno) {
        try remove(name, flags: 0)
    }

    /// Removes an empty directory; that it isn't there is fine.
    func removeDirectory(_ name: UnsafePointer<CChar>) throws(Errno) {
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
    func synchronize() throws(Errno) {
        try file.synchronize()
    }
}
