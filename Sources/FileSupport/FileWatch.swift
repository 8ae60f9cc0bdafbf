import Dispatch
package import SystemPackage
import ThreadSupport

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Notices changes of names in a directory, or of an SQLite database in it.
///
/// The directory may not exist yet, or vanish and come back.
///
/// A file system reports changes made on this device. What other machines change on a network's file system is not noticed.
/// Nothing is reported of a file system that is mounted: ``lookAgain()`` notices it.
/// The watch ends when its last reference is released.
package final class FileWatch: Sendable {
    private let events: FileEvents
    private let report: @Sendable (FileEvents, FileChanges) -> Void

    /// Watches a directory, or a database.
    ///
    /// - Parameters:
    ///   - directory: The absolute path of the directory.
    ///   - database: The name of a database, which is changed, replaced or removed. `nil` watches all names in the directory,
    ///     except hidden names: programs that synchronize folders write under these first.
    ///   - onChange: Called after one or several changes, on a thread of the system's; it mustn't block.
    /// - Throws: The error of the system, for instance if too many directories are watched.
    package init(
        directory: String,
        database: String? = nil,
        onChange: @escaping @Sendable () -> Void
    ) throws(Errno) {
        let scene = WatchedScene(directory: directory, database: database)
        // Before anything is watched: what changes from now on either shows in the first event or is a difference from this.
        let former = Locked(scene.look())
        report = { events, changes in
            let now = scene.look()
            let isOther = former.withLock { former in
                defer { former = now }
                return former != now
            }
            if isOther || changes.contains(.path) { events.watch() }
            if isOther || !changes.isDisjoint(with: [.content, .path]) { onChange() }
        }
        events = try FileEvents(scene, report)
    }

    /// Watches what the path stands for by now, and reports if that isn't the same as before.
    ///
    /// The comparison follows on the watch's own thread, since file systems of networks may block.
    package func lookAgain() { events.queue.async { [events, report] in report(events, []) } }
}

/// What is watched: a directory, all directories above it, and a database in it.
struct WatchedScene: Sendable {
    /// The paths of the directories, the root first.
    let directories: [String]
    /// The names of the directories below the root.
    let names: [String]
    /// The name of the database; `nil` if all names in the directory are watched.
    let database: String?
    /// The names of the files that hold the database's content.
    let files: [String]

    /// What the names stand for.
    struct Look: Equatable {
        var directories: [FileState?]
        var files: [FileState?]
    }

    /// What distinguishes a file or directory from all others, and a file from its former content.
    struct FileState: Equatable {
        var device: UInt64
        var number: UInt64
        /// Size and time of the last modification, of a file only.
        var content: [Int64] = []
    }

    init(directory: String, database: String?) {
        var path = FilePath(directory).lexicallyNormalized()
        var paths = [path.string]
        while path.removeLastComponent() { paths.append(path.string) }
        directories = paths.reversed()
        names = directories.dropFirst().compactMap { FilePath($0).lastComponent?.string }
        self.database = database
        files = database.map { [$0, $0 + "-wal"] } ?? []
    }

    /// The path of a file in the directory.
    func path(_ name: String) -> String { FilePath(directories.last ?? "/").appending(name).string }

    func look() -> Look {
        Look(
            directories: directories.map { path in (try? Stat(path)).map { FileState($0) } },
            files: files.map { file in
                // A write-ahead log comes and goes with its readers: empty, it says nothing.
                guard let status = try? Stat(path(file)), status.size > 0 else { return nil }
                var state = FileState(status)
                let modified = status.st_mtim
                state.content = [status.size, Int64(modified.tv_sec), Int64(modified.tv_nsec)]
                return state
            }
        )
    }
}

extension WatchedScene.FileState {
    /// The identity of a file.
    fileprivate init(_ status: Stat) {
        self.init(
            device: UInt64(truncatingIfNeeded: status.deviceID.rawValue),
            number: UInt64(truncatingIfNeeded: status.inode.rawValue)
        )
    }
}

/// What the system reports of a watched scene.
struct FileChanges: OptionSet {
    let rawValue: UInt8

    /// A file was written, or a name that is watched.
    static let content = FileChanges(rawValue: 1 << 0)
    /// One of the directories on the path was created, renamed or removed.
    static let path = FileChanges(rawValue: 1 << 1)
    /// Something came or went, which counts if the files or directories are others than before.
    static let names = FileChanges(rawValue: 1 << 2)
}
