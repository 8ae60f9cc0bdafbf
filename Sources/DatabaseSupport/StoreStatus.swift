import ByteCoding
import FileSupport
package import Foundation
import SystemPackage

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
    /// The numbers of the store and of its write-ahead log, each of which is empty for a file that is empty or doesn't exist.
    private let files: [[Int64]]

    /// Reads the status of a store's files.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - log: How far its log is. Without it, only the log's size and times tell of commits into it.
    package init(ofStoreAt path: String, log: WriteAheadLog? = nil) {
        // SQLite follows symbolic links, and keeps the log next to the file itself.
        let path = path.canonicalPath ?? path
        let (store, logFile) = (try? Stat(path), try? Stat(path + "-wal"))
        files = [
            Self.numbers(store, \.st_ctim) { [Self.changeCounter(path)] },
            // As root, SQLite sets the log's owner whenever it opens it, which changes the time of the last change.
            Self.numbers(logFile, \.st_mtim) { log?.position ?? [] },
        ]
    }

    /// The change counter of a database; some bytes of another file.
    private static func changeCounter(_ path: String) -> Int64 {
        let bytes = SQLiteFile.bytes(ofFileAt: path, at: 24, count: 4) ?? []
        return bytes.reduce(0) { $0 << 8 | Int64($1) }
    }

    /// A file's device, inode, size, two times and counters.
    private static func numbers(
        _ status: Stat?,
        _ changed: KeyPath<Stat, timespec>,
        counters: () -> [Int64]
    ) -> [Int64] {
        // A write-ahead log that is empty comes and goes with its readers.
        guard let status, status.size > 0 else { return [] }
        let (modified, changed) = (status.st_mtim, status[keyPath: changed])
        return [
            Int64(truncatingIfNeeded: status.deviceID.rawValue), Int64(truncatingIfNeeded: status.inode.rawValue),
            status.size, Int64(modified.tv_sec), Int64(modified.tv_nsec), Int64(changed.tv_sec), Int64(changed.tv_nsec),
        ] + counters()
    }

    private var existing: [[Int64]] { files.filter { !$0.isEmpty } }

    /// The size of all files, in bytes.
    package var byteCount: Int64 { existing.map(\.size).reduce(0, +) }

    /// Whether there is a write-ahead log that isn't empty.
    ///
    /// It may hold a commit that other connections don't see yet: no file changes when the commit shows.
    package var hasLog: Bool { !files[1].isEmpty }

    /// When the store was last written; `nil` if it doesn't exist.
    package var modified: Date? { existing.map(\.modified).max() }

    /// The time from which on a write shows in the times of the files.
    ///
    /// Some file systems count whole or even seconds. One whose times have microseconds counts in the kernel's ticks, of
    /// at most 10 milliseconds.
    package var settled: Date {
        let last = existing.flatMap { [$0.modified, $0.changed] }.max() ?? Date(timeIntervalSince1970: 0)
        let isCoarse = existing.allSatisfy { $0.changedNanoseconds % 1_000_000 == 0 }
        return last.addingTimeInterval(isCoarse ? 2 : Self.tick)
    }

    /// More than a tick of the kernel's clock, in seconds.
    package static let tick = 0.05

    /// The status in bytes, of which two are equal if it's the same.
    package var bytes: [UInt8] {
        files.flatMap { [UInt8($0.count)] + $0.flatMap { UInt64(bitPattern: $0).littleEndianBytes } }
    }
}

/// The numbers of a file that isn't empty.
extension [Int64] {
    fileprivate var size: Int64 { self[2] }
    fileprivate var modified: Date { Self.date(self[3], self[4]) }
    fileprivate var changed: Date { Self.date(self[5], changedNanoseconds) }
    fileprivate var changedNanoseconds: Int64 { self[6] }

    private static func date(_ seconds: Int64, _ nanoseconds: Int64) -> Date {
        Date(timeIntervalSince1970: Double(seconds) + Double(nanoseconds) / 1_000_000_000)
    }
}
