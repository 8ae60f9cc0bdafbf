package import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension Directory {
    /// Opens a directory in this one; `nil` if it doesn't exist or is a file.
    package func directoryIfPresent(_ name: String) throws(Errno) -> Directory? {
        do {
            return try directory(name)
        } catch let error where error.isAbsent {
            return nil
        }
    }

    /// Opens a directory in this one, and creates it if it doesn't exist.
    package func madeDirectory(_ name: String) throws(Errno) -> Directory {
        do {
            return try directory(name)
        } catch let error where error == .noSuchFileOrDirectory {
            try makeDirectory(name)
            try synchronize()
            return try directory(name)
        }
    }

    /// The error of a directory that has too many levels.
    package struct TooDeep: Error {}

    /// Removes the file or directory of this name, with its contents.
    ///
    /// Symbolic links are removed, never followed. Each level holds a descriptor, so their number has a limit: another program
    /// may have created any number.
    ///
    /// - Parameters:
    ///   - name: The name of the file or directory.
    ///   - maximumDepth: The maximum number of levels of directories.
    /// - Throws: ``TooDeep``; `Errno`; `CancellationError`.
    package func removeTree(_ name: UnsafePointer<CChar>, maximumDepth: Int) throws {
        try Task.checkCancellation()
        guard let type = try status(name)?.type else { return }
        guard type == .directory else { return try unlink(name) }
        guard maximumDepth > 0 else { throw TooDeep() }
        let directory = try directory(name)
        for name in try directory.names() {
            try directory.removeTree(name, maximumDepth: maximumDepth - 1)
        }
        try removeDirectory(name)
    }

    /// Gives a file or directory another name, which mustn't exist.
    ///
    /// - Throws: `EEXIST` or `ENOTEMPTY` if the name exists.
    package func move(_ name: UnsafePointer<CChar>, to other: Directory, _ newName: UnsafePointer<CChar>) throws(Errno)
    {
        do {
            try renameIfSupported(name, to: other, newName)
        } catch let error where error.isUnsupported {
            try moveWithoutExclusiveRename(name, to: other, newName)
        } catch let error where error == .fileExists {
            guard try isSameName(name, in: other, newName) else { throw error }
            try rename(name, to: other, newName)
        }
        try other.synchronize()
        try synchronize()
    }

    /// Whether both names are one entry of this directory, because the file system ignores the difference, which is mostly case.
    private func isSameName(
        _ name: UnsafePointer<CChar>,
        in other: Directory,
        _ newName: UnsafePointer<CChar>
    ) throws(Errno) -> Bool {
        let (here, there) = (try status(), try other.status())
        guard here.isOfSameFile(as: there),
            try status(name)?.inode == other.status(newName)?.inode
        else { return false }
        // Two names of one file, as hard links are, are two entries.
        let new = Array(UnsafeBufferPointer(start: newName, count: strlen(newName) + 1))
        return try !names().contains(new)
    }

    /// Moves on a file system that can't rename exclusively, such as NFS.
    ///
    /// A file is never replaced, because `link` refuses, nor a directory with contents, because `rename` refuses. Only an
    /// empty directory that is created between the check and the rename may be replaced.
    package func moveWithoutExclusiveRename(
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
