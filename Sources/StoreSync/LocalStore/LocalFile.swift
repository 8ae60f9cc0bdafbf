import FileSupport
import Foundation
import StoreChanges
import SystemPackage

/// File operations that Foundation doesn't offer: exclusive, durable, and with an owner.
enum LocalFile {
    /// Runs system calls that write `path`, and translates their error.
    static func writing<Result>(
        _ path: String,
        _ body: () throws(Errno) -> Result
    ) throws(StoreSyncError) -> Result {
        do throws(Errno) { return try body() } catch { throw StoreSyncError(writing: path, errno: error.rawValue) }
    }

    /// Creates an empty file, or throws if something exists at the path.
    static func create(_ path: String) throws {
        _ = try writing(path) { () throws(Errno) in try OpenFile(creating: path) }
    }

    /// Creates a directory that only this user can access, and those above it, unless it exists.
    static func createDirectory(at url: URL) throws(StoreSyncError) {
        do {
            try FileManager.default.createDirectory(
                at: url,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw StoreSyncError(writing: url, error)
        }
    }

    /// Makes the content of a file, or the names in a directory, survive a power failure.
    static func synchronize(_ path: String) throws {
        try writing(path) { () throws(Errno) in try OpenFile(path: path, O_RDONLY).synchronize() }
    }

    /// Writes a file that only this user can access, in one step, and creates its directory.
    ///
    /// The file needn't survive a power failure.
    static func replace(_ url: URL, with pieces: [[UInt8]]) throws {
        let new = url.appendingPathExtension("new")
        unlink(new.path)
        do {
            try createDirectory(at: url.deletingLastPathComponent())
            try writing(new.path) { () throws(Errno) in
                let file = try OpenFile(creating: new.path)
                for piece in pieces { try file.write(piece) }
            }
            try rename(new.path, to: url.path)
        } catch {
            unlink(new.path)
            throw error is StoreSyncError ? error : StoreSyncError(writing: url, error)
        }
    }

    /// Renames a file, replacing an existing file of the new name.
    static func rename(_ path: String, to newPath: String) throws {
        _ = try writing(newPath) { () throws(Errno) in try retrying { Foundation.rename(path, newPath) } }
    }

    /// Renames a file within its directory; `false` if the new name exists already.
    static func renameExclusively(_ url: URL, to newURL: URL) throws -> Bool {
        do throws(Errno) {
            let directory = try Directory(path: url.deletingLastPathComponent().path)
            try directory.renameExclusively(url.lastPathComponent, newURL.lastPathComponent)
            return true
        } catch {
            if error == .fileExists { return false }
            throw StoreSyncError(writing: newURL.path, errno: error.rawValue)
        }
    }

    /// Whether a file exists.
    ///
    /// - Throws: ``StoreSyncError`` with `cannotWrite` if the file system can't tell: callers create a missing file.
    static func exists(_ path: String) throws -> Bool {
        do throws(Errno) {
            return try path.fileExists
        } catch {
            throw StoreSyncError(StoreChangesError(unreachableFile: path, error))
        }
    }

    /// Whether a path names a regular file without further hard links, so that a write to it changes no other file.
    static func isUnshared(_ path: String) -> Bool {
        guard let status = try? Stat(path, followTargetSymlink: false) else { return false }
        return status.type == .regular && status.linkCount == 1
    }

    /// Gives a file the owner and the permissions of another one.
    static func adopt(_ status: Stat, _ path: String) throws {
        try change(path) { file throws(Errno) in
            // Only root may change a file's owner, and then it must: otherwise the store's owner couldn't open the store
            // any more.
            let (descriptor, user, group) = (file.descriptor.rawValue, status.userID.rawValue, status.groupID.rawValue)
            if fchown(descriptor, user, group) != 0 { _ = fchown(descriptor, uid_t.max, group) }
            try file.setPermissions(status.permissions.intersection(.all))
        }
    }

    /// Gives a file the permissions that new files get in its directory.
    ///
    /// A probe file shows them: the process's mask can't be read without changing it for all threads.
    static func adoptDefaults(_ path: String) throws {
        let probe = path + "-mode"
        let permissions = try writing(probe) { () throws(Errno) in
            let file = try OpenFile(creating: probe, permissions: .defaultOfFiles)
            defer { unlink(probe) }
            return try file.status().permissions
        }
        try change(path) { file throws(Errno) in try file.setPermissions(permissions) }
    }

    /// Changes a file's owner or its permissions.
    ///
    /// Another user who owns the directory may put a link in the file's place: root would give away what the link leads to.
    private static func change(_ path: String, _ body: (OpenFile) throws(Errno) -> Void) throws {
        try writing(path) { () throws(Errno) in
            let file = try OpenFile(path: path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
            guard try file.status().linkCount <= 1 else { throw .tooManyLinks }
            try body(file)
        }
    }
}

extension FilePermissions {
    /// What the owner, the group and others may do, without the bits that change who a program runs as.
    fileprivate static let all = FilePermissions(rawValue: 0o777)
}
