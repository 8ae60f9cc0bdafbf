import ContentDigests
import DatabaseSupport
import FileSupport
import Foundation
import GRDB
import StoreChanges
import SystemPackage

/// A store file on this device.
///
/// The app may have the store open in this process. When a process closes any descriptor of a file, POSIX drops all its
/// locks on that file. So an SQLite store is accessed only through SQLite, which keeps track of its own locks.
struct LocalStore: Sendable {
    /// Where the file is, with symbolic links followed.
    let url: URL

    /// How pages of its content are digested.
    let pages: PageHash

    /// Observes the steps in which the store is read or replaced.
    let steps: StepObserver

    /// This device's clock.
    let now: @Sendable () -> Date

    /// The canonical path, under which the store is remembered.
    var path: LocalPath { LocalPath(url.path) }

    /// The maximum length of a store's name in bytes: file systems allow 255, and SQLite appends "-journal".
    static let maximumNameBytes = 255 - 8

    /// Finds a store, which need not exist.
    ///
    /// - Throws: ``StoreSyncError`` if the directory doesn't exist, can't be searched or is a file, the name is too long, or
    ///   the path exists and isn't a file.
    init(
        _ url: URL,
        pages: PageHash = .plain,
        steps: StepObserver = .none,
        now: @escaping @Sendable () -> Date = { .now }
    ) throws {
        (self.pages, self.steps, self.now) = (pages, steps, now)
        guard !url.lastPathComponent.isEmpty, url.path != "/" else {
            throw StoreSyncError(.storeNotFound, "\(url.path) isn't a store file. Name a file.")
        }
        if let resolved = url.path.canonicalPath {
            self.url = URL(fileURLWithPath: resolved, isDirectory: false)
        } else {
            let parent = url.deletingLastPathComponent()
            guard let resolved = parent.path.canonicalPath else {
                _ = try Self.status(parent.path)
                throw StoreSyncError(
                    .storeNotFound,
                    "The directory \(parent.path) doesn't exist on this device. Check the path, or create the directory.",
                    cause: Errno.noSuchFileOrDirectory
                )
            }
            if let status = try Self.status(resolved), status.type != .directory {
                throw StoreSyncError(
                    .storeNotFound,
                    "\(parent.path) is a file, not a directory. Check the path of the store."
                )
            }
            self.url = URL(fileURLWithPath: resolved, isDirectory: true).appending(path: url.lastPathComponent.asKey)
        }
        try refuseLongName()
        if try !exists { try refusePlaceholder() }
    }

    /// Throws if iCloud has the file and has put a placeholder here: a new store would be a second one.
    private func refusePlaceholder() throws {
        let placeholder = directory.appending(path: ".\(url.lastPathComponent).icloud").path
        guard access(placeholder, F_OK) == 0 else { return }
        throw StoreSyncError(
            .storeNotFound,
            """
            \(path) is in iCloud, and only its placeholder is on this device. Download it in Finder or Files, then try again. A \
            store is better kept outside iCloud, which doesn't know SQLite's locks and logs.
            """
        )
    }

    /// Where a copy of a store is kept: a long name is shortened, so that the suffix and SQLite's `-journal` fit.
    static func url(besides store: URL, _ end: String) -> URL {
        var name = store.lastPathComponent
        while name.utf8.count + end.utf8.count > maximumNameBytes { name.removeLast() }
        return store.deletingLastPathComponent().appending(path: name + end)
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

    /// The status of the file in the file system; `nil` if it doesn't exist.
    var status: Stat? {
        get throws { try Self.status(url.path) }
    }

    private static func status(_ path: String, followsLinks: Bool = false) throws -> Stat? {
        do {
            return try path.fileStatus(followsLinks: followsLinks)
        } catch {
            throw StoreSyncError(StoreChangesError(unreachableStore: path, error))
        }
    }

    /// Whether the file exists.
    var exists: Bool {
        get throws {
            guard let status = try status else { return false }
            guard status.type == .regular else {
                // A link that leads back to itself can't be followed at all.
                _ = try Self.status(url.path, followsLinks: true)
                let reason =
                    switch status.type {
                    case .directory: "is a directory, not a store. Name a file."
                    case .symbolicLink: "is a symbolic link to a file that doesn't exist. Is its disk mounted?"
                    default: "is a device, a pipe or a socket, not a store. Name a file."
                    }
                throw StoreSyncError(.storeNotFound, "\(path) \(reason)")
            }
            return true
        }
    }

    /// The file's size in bytes.
    var byteCount: Int64 {
        get throws { try status?.size ?? 0 }
    }

    /// Attributes that distinguish most states of a file without reading its content.
    ///
    /// Equal fingerprints prove nothing: a file that is mapped into memory may change while its times stay the same.
    struct Fingerprint: Equatable {
        private let numbers: [Int64]

        fileprivate init(_ status: Stat) {
            let (changed, modified) = (status.st_ctim, status.st_mtim)
            numbers = [
                Int64(truncatingIfNeeded: status.deviceID.rawValue), Int64(truncatingIfNeeded: status.inode.rawValue),
                status.size, Int64(changed.tv_sec), Int64(changed.tv_nsec), Int64(modified.tv_sec),
                Int64(modified.tv_nsec),
            ]
        }
    }

    var fingerprint: Fingerprint? { (try? status).map(Fingerprint.init) }

    /// Whether the file is an SQLite database by its first bytes.
    var isDatabase: Bool { SQLiteFile.isDatabase(at: url.path) }

    /// Opens the store with SQLite; `nil` if it isn't an SQLite database.
    ///
    /// - Parameter timeout: How long to wait for other connections, in seconds.
    /// - Returns: A connection, to be closed by the caller.
    /// - Throws: ``StoreSyncError``: `busy`, `corrupt`, `storeNotFound`, `unsupportedFormat`; `CancellationError`.
    func openDatabase(timeout: TimeInterval) throws -> DatabaseQueue? {
        guard isDatabase else { return nil }
        try refuseForeignFiles()
        do {
            do {
                return try open(readonly: false, timeout)
            } catch let error as DatabaseError
                where [.SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM].contains(error.resultCode)
            {
                return try open(readonly: true, timeout)
            }
        } catch {
            throw StoreSyncError(database: error, at: url.path).orCancellation
        }
    }

    /// The directory that the store is in.
    var directory: URL { url.deletingLastPathComponent() }

    private func open(readonly: Bool, _ timeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = Configuration.ofPages
        configuration.readonly = readonly
        configuration.busyMode = .cancellable(timeout)
        return try DatabaseQueue(path: url.path, configuration: configuration)
    }
}
