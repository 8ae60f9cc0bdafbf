import Foundation
import GRDB

/// A store file on this device.
///
/// The app may have it open in this very process, and POSIX drops all locks of a process on a file when any descriptor of
/// it is closed. So an SQLite store is touched through SQLite alone, which knows of its own locks.
struct LocalStore: Sendable {
    /// Where the file is, with symbolic links followed.
    let url: URL

    /// The canonical path, under which the store is remembered.
    var path: String { url.path }

    /// How many bytes the name of a store has at most: file systems allow 255, and SQLite appends "-journal".
    static let maximumNameBytes = 255 - 8

    /// Finds a store, which need not exist.
    ///
    /// - Throws: ``StoreSyncError`` if the directory isn't there, the name is too long, or something that isn't a file is in
    ///   the way.
    init(_ url: URL) throws {
        guard !url.lastPathComponent.isEmpty, url.path != "/" else {
            throw StoreSyncError(.storeNotFound, "\(url.path) isn't a store file. Name a file.")
        }
        if let resolved = Self.canonicalPath(url.path) {
            self.url = URL(fileURLWithPath: resolved, isDirectory: false)
        } else {
            let parent = url.deletingLastPathComponent()
            guard let resolved = Self.canonicalPath(parent.path) else {
                throw StoreSyncError(.storeNotFound, "The directory \(parent.path) isn't there on this device.")
            }
            self.url = URL(fileURLWithPath: resolved, isDirectory: true).appending(path: url.lastPathComponent)
        }
        try refuseLongName()
        _ = try exists
    }

    private func refuseLongName() throws {
        let byteCount = url.lastPathComponent.utf8.count
        guard byteCount > Self.maximumNameBytes else { return }
        throw StoreSyncError(
            .storeNotFound,
            """
            The name of \(path) has \(byteCount) bytes. SQLite needs 8 more for the name of a journal, so \
            \(Self.maximumNameBytes) are the maximum. Give the store a shorter name.
            """
        )
    }

    private static func canonicalPath(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// What the file system says of the file.
    var status: stat? {
        var status = stat()
        return lstat(path, &status) == 0 ? status : nil
    }

    /// Whether there is a file.
    var exists: Bool {
        get throws {
            guard let status else { return false }
            guard status.st_mode & S_IFMT == S_IFREG else {
                throw StoreSyncError(
                    .storeNotFound,
                    "\(path) is \(status.st_mode & S_IFMT == S_IFDIR ? "a directory" : "not a file"), not a store. Name a file."
                )
            }
            return true
        }
    }

    /// The file's size in bytes.
    var byteCount: Int64 {
        get throws { status.map { Int64($0.st_size) } ?? 0 }
    }

    /// What tells most states of a file from each other without a look into it.
    ///
    /// Equal ones prove nothing: a file that is mapped into memory may change under the same times.
    struct Fingerprint: Equatable {
        private let numbers: [Int64]

        fileprivate init(_ status: stat) {
            #if canImport(Darwin)
            let (changed, modified) = (status.st_ctimespec, status.st_mtimespec)
            #else
            let (changed, modified) = (status.st_ctim, status.st_mtim)
            #endif
            numbers = [
                Int64(truncatingIfNeeded: status.st_dev), Int64(truncatingIfNeeded: status.st_ino),
                Int64(status.st_size), Int64(changed.tv_sec), Int64(changed.tv_nsec), Int64(modified.tv_sec),
                Int64(modified.tv_nsec),
            ]
        }
    }

    var fingerprint: Fingerprint? { status.map(Fingerprint.init) }

    /// The files beside the store that belong to it while it's open, or was left by a process that died.
    var sideFiles: [String] {
        ["-wal", "-journal", "-shm"].map { path + $0 }.filter { access($0, F_OK) == 0 }
    }

    /// Opens the store with SQLite; `nil` if it isn't an SQLite database.
    ///
    /// - Parameter timeout: How long to wait for others, in seconds.
    /// - Returns: A connection, to be closed by the caller.
    /// - Throws: ``StoreSyncError``: `busy`, `corrupt`, `storeNotFound`; `CancellationError`.
    func openDatabase(timeout: TimeInterval) throws -> DatabaseQueue? {
        guard SQLiteHeader.isAtStart(of: url) else { return nil }
        do {
            return try open(readonly: false, timeout)
        } catch let error as DatabaseError
            where [.SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM].contains(error.resultCode)
        {
            do {
                return try open(readonly: true, timeout)
            } catch {
                throw StoreSyncError(database: error, at: path).orCancellation
            }
        } catch {
            throw StoreSyncError(database: error, at: path).orCancellation
        }
    }

    /// The directory that the store is in.
    var directory: URL { url.deletingLastPathComponent() }

    private func open(readonly: Bool, _ timeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = readonly
        configuration.busyMode = .cancellable(timeout)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        // SQLite looks at the file when it reads it first.
        try queue.inDatabase { _ = try Int.fetchOne($0, sql: "PRAGMA schema_version") }
        return queue
    }
}
