import ByteCoding
import FileSupport
package import Foundation

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The status of a store's files, by which an unchanged store is told without reading it.
///
/// A commit changes the size or a time of the file, or of its write-ahead log, before other connections see it. But file
/// systems count time in steps, by a clock that may not be this device's, and programs set times. So the status has
/// SQLite's counters, too:
///
/// - Every commit with a rollback journal increments a counter of 32 bits in the file. With `locking_mode=EXCLUSIVE` only
///   the first one does while the lock is held. But no other connection reads the store meanwhile, so a commit between two
///   of its reads shows.
/// - Every commit into a log changes how far the log is.
///
/// Two kinds of writes show only in the size and the times, so they might not show within the same step as the status:
/// writes without SQLite, and moving a log into the file. SQLite allows logs only on the device's own disks, whose times
/// are of its own clock.
package struct StoreStatus: Hashable, Sendable, Codable {
    /// Device, inode, size and both times of every file, and then its counters; empty for a file that doesn't exist.
    private var files: [[Int64]]

    /// Reads the status of a store's files.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - log: How far its log is. Without it, only the log's size and times tell of commits into it.
    package init(ofStoreAt path: String, log: WriteAheadLog? = nil) {
        // SQLite follows symbolic links, and keeps the log next to the file itself.
        let path = path.canonicalPath ?? path
        // A write-ahead log that is empty comes and goes with its readers.
        files = [path, path + "-wal"].map(Self.status).map { $0.isEmpty || $0[2] > 0 ? $0 : [] }
        // As root, SQLite sets the log's owner whenever it opens it, which changes this time.
        if !files[1].isEmpty { files[1].replaceSubrange(5..<7, with: files[1][3..<5] + (log?.position ?? [])) }
        if !files[0].isEmpty { files[0].append(Self.changeCounter(path)) }
    }

    /// The change counter of a database; some bytes of another file.
    private static func changeCounter(_ path: String) -> Int64 {
        let bytes = SQLiteFile.bytes(ofFileAt: path, at: 24, count: 4) ?? []
        return bytes.reduce(0) { $0 << 8 | Int64($1) }
    }

    private static func status(_ path: String) -> [Int64] {
        var status = stat()
        guard stat(path, &status) == 0 else { return [] }
        #if canImport(Darwin)
        let (modified, changed) = (status.st_mtimespec, status.st_ctimespec)
        #else
        let (modified, changed) = (status.st_mtim, status.st_ctim)
        #endif
        return [
            Int64(truncatingIfNeeded: status.st_dev), Int64(truncatingIfNeeded: status.st_ino), Int64(status.st_size),
            Int64(modified.tv_sec), Int64(modified.tv_nsec), Int64(changed.tv_sec), Int64(changed.tv_nsec),
        ]
    }

    /// The size of all files, in bytes.
    package var byteCount: Int64 { files.filter { !$0.isEmpty }.reduce(0) { $0 + $1[2] } }

    /// Whether there is a write-ahead log that isn't empty.
    ///
    /// It may hold a commit that other connections don't see yet: no file changes when the commit shows.
    package var hasLog: Bool { !files[1].isEmpty }

    /// When the store was last written; `nil` if it doesn't exist.
    package var modified: Date? {
        files.filter { !$0.isEmpty }.map { Self.date($0[3], $0[4]) }.max()
    }

    private static func date(_ seconds: Int64, _ nanoseconds: Int64) -> Date {
        Date(timeIntervalSince1970: Double(seconds) + Double(nanoseconds) / 1_000_000_000)
    }

    /// The time from which on a write shows in the times of the files.
    ///
    /// Some file systems count whole or even seconds. One whose times have microseconds counts in the kernel's ticks, of
    /// at most 10 milliseconds.
    package var settled: Date {
        let existing = files.filter { !$0.isEmpty }
        let last = existing.flatMap { [Self.date($0[3], $0[4]), Self.date($0[5], $0[6])] }.max()
        let step = existing.allSatisfy { $0[6] % 1_000_000 == 0 } ? 2 : Self.tick
        return (last ?? Date(timeIntervalSince1970: 0)).addingTimeInterval(step)
    }

    /// More than a tick of the kernel's clock, in seconds.
    package static let tick = 0.05

    /// The status in bytes, of which two are equal if it's the same.
    package var bytes: [UInt8] {
        files.flatMap { [UInt8($0.count)] + $0.flatMap { UInt64(bitPattern: $0).littleEndianBytes } }
    }
}
