import Foundation

/// File operations that Foundation doesn't offer: exclusive, durable, and with an owner.
enum LocalFile {
    /// Creates an empty file, or throws if something exists at the path.
    static func create(_ path: String, mode: mode_t = 0o600) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else { throw StoreSyncError(writing: path, errno: errno) }
        close(descriptor)
    }

    /// Makes an empty file share another one's blocks, until either is written to.
    ///
    /// Returns whether the file system can do that, as Btrfs and XFS can; otherwise the file is still empty. Only Linux
    /// is supported so far.
    static func clone(_ source: URL, to target: FileHandle) -> Bool {
        #if os(Linux)
        guard let source = try? FileHandle(forReadingFrom: source) else { return false }
        defer { try? source.close() }
        // FICLONE, a macro that Swift doesn't import.
        guard ioctl(target.fileDescriptor, 0x4004_9409, source.fileDescriptor) == 0 else { return false }
        var (original, clone) = (stat(), stat())
        guard fstat(source.fileDescriptor, &original) == 0, fstat(target.fileDescriptor, &clone) == 0,
            original.st_size == clone.st_size
        else {
            ftruncate(target.fileDescriptor, 0)
            return false
        }
        return true
        #else
        return false
        #endif
    }

    /// Makes the content of a file, or the names in a directory, survive a power failure.
    static func synchronize(_ path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw StoreSyncError(writing: path, errno: errno) }
        defer { close(descriptor) }
        #if canImport(Darwin)
        // On Apple platforms fsync leaves the data in the drive's cache. Not every file system supports F_FULLFSYNC.
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return }
        #endif
        guard fsync(descriptor) == 0 else { throw StoreSyncError(writing: path, errno: errno) }
    }

    /// Writes a file that only this user can access, in one step, and creates its directory.
    ///
    /// The file needn't survive a power failure.
    static func replace(_ url: URL, with pieces: [[UInt8]]) throws {
        let new = url.appendingPathExtension("new")
        unlink(new.path)
        do {
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(),
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            try create(new.path)
            let handle = try FileHandle(forWritingTo: new)
            defer { try? handle.close() }
            for piece in pieces { try handle.write(contentsOf: piece) }
            try rename(new.path, to: url.path)
        } catch {
            unlink(new.path)
            throw error is StoreSyncError ? error : StoreSyncError(writing: url, error)
        }
    }

    /// Renames a file, replacing an existing file of the new name.
    static func rename(_ path: String, to newPath: String) throws {
        guard Foundation.rename(path, newPath) == 0 else { throw StoreSyncError(writing: newPath, errno: errno) }
    }

    /// Renames a file; `false` if the new name exists already.
    static func renameExclusively(_ path: String, to newPath: String) throws -> Bool {
        if link(path, newPath) == 0 {
            unlink(path)
            return true
        }
        guard errno != EEXIST else { return false }
        // Without hard links, nothing closes the gap between this check and the rename.
        var status = stat()
        guard lstat(newPath, &status) != 0 else { return false }
        try rename(path, to: newPath)
        return true
    }

    /// Gives a file the owner and the permissions of another one.
    static func adopt(_ status: stat, _ path: String) throws {
        // Only root may change a file's owner, and then it must: otherwise the store's owner couldn't open the store
        // any more.
        if chown(path, status.st_uid, status.st_gid) != 0 { _ = chown(path, uid_t.max, status.st_gid) }
        guard chmod(path, status.st_mode & 0o7777) == 0 else { throw StoreSyncError(writing: path, errno: errno) }
    }

    /// Gives a file the permissions that new files get in its directory.
    ///
    /// A probe file shows them: the process's mask can't be read without changing it for all threads.
    static func adoptDefaults(_ path: String) throws {
        let probe = path + "-mode"
        try create(probe, mode: 0o666)
        defer { unlink(probe) }
        var status = stat()
        guard stat(probe, &status) == 0, chmod(path, status.st_mode & 0o7777) == 0 else {
            throw StoreSyncError(writing: path, errno: errno)
        }
    }
}
