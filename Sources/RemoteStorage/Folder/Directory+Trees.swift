import SystemPackage

extension Directory {
    /// Opens a directory in this one; `nil` if it isn't there or is a file.
    func directoryIfPresent(_ name: String) throws(Errno) -> Directory? {
        do {
            return try directory(name)
        } catch let error where error.isAbsent {
            return nil
        }
    }

    /// Opens a directory in this one, and makes it where it isn't there.
    func madeDirectory(_ name: String) throws(Errno) -> Directory {
        do {
            return try directory(name)
        } catch let error where error == .noSuchFileOrDirectory {
            try makeDirectory(name)
            try synchronize()
            return try directory(name)
        }
    }

    /// Removes what has this name, with all that is in it.
    ///
    /// Symbolic links are removed, never followed.
    func removeTree(_ name: UnsafePointer<CChar>) throws {
        try Task.checkCancellation()
        guard let type = try status(name)?.type else { return }
        guard type == .directory else { return try unlink(name) }
        let directory = try directory(name)
        for name in try directory.names() {
            try directory.removeTree(name)
        }
        try removeDirectory(name)
    }

    /// Gives a file or directory another name, which isn't there yet.
    ///
    /// - Throws: `EEXIST` or `ENOTEMPTY` if something has that name.
    func move(_ name: UnsafePointer<CChar>, to other: Directory, _ newName: UnsafePointer<CChar>) throws(Errno) {
        do {
            try renameExclusively(name, to: other, newName)
        } catch let error where error.isUnsupported {
            try moveWithoutExclusiveRename(name, to: other, newName)
        }
        try other.synchronize()
        try synchronize()
    }

    /// Moves where the file system, such as NFS, can't rename exclusively.
    ///
    /// A file is never replaced, as `link` doesn't; a directory with something in it isn't, as `rename` doesn't. Only an
    /// empty directory that is made at this very moment may be.
    func moveWithoutExclusiveRename(
        _ name: UnsafePointer<CChar>,
        to other: Directory,
        _ newName: UnsafePointer<CChar>
    ) throws(Errno) {
        guard try other.status(newName) == nil else { throw .fileExists }
        guard try status(name)?.type != .directory else { return try rename(name, to: other, newName) }
        try link(name, to: other, newName)
        try unlink(name)
    }
}
