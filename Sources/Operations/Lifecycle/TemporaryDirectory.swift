#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The temporary directory of one run, and the lock that shows other processes that the run lives.
///
/// The lock is an empty file beside the directory, held with flock(2) as long as this object exists. A process that dies
/// leaves both; the next directory that is made in the same place removes them.
///
/// There is no race: the lock is held under its name before the directory exists and until it is gone, and a sweep
/// removes only what it holds the lock of.
final class TemporaryDirectory: Sendable {
    private let name: Name
    private let place: OpenDirectory
    private let lock: Descriptor
    let url: URL

    /// Makes a directory with mode 0700, after a sweep of the place.
    ///
    /// Each making sweeps: that needs no state, finds what other processes left since the last one, and costs little
    /// beside the files that the directory is for.
    ///
    /// - Parameters:
    ///   - url: The place in which the directory is made.
    ///   - willLock: Called between the making of a lock and its locking, where another process may sweep.
    /// - Throws: An error of the code `temporaryDirectoryUnavailable`.
    init(in url: URL, willLock: () -> Void = {}) throws(OperationError) {
        do {
            place = try OpenDirectory(path: url.path)
            Self.sweep(place, url)
            (name, lock) = try Self.makeLock(in: place, willLock)
            self.url = url.appending(path: name.directory, directoryHint: .isDirectory)
            do {
                try place.makeDirectory(name.directory)
            } catch {
                place.removeFile(name.lock)
                throw error
            }
        } catch {
            throw OperationError(
                .temporaryDirectoryUnavailable,
                """
                No temporary directory could be made in \(url.path): \(error). Make that directory readable and \
                writable, or set another one as the supervisor's temporaryDirectory.
                """
            )
        }
    }

    /// Takes over what a dead process left; `nil` if it isn't certain that it is dead.
    private init?(left name: Name, in place: OpenDirectory, _ url: URL) {
        do {
            let lock = try place.openFile(name.lock, O_RDWR)
            let status = try lock.status()
            guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_nlink == 1,
                try lock.lock()
            else { return nil }
            self.lock = lock
        } catch {
            return nil
        }
        self.name = name
        self.place = place
        self.url = url.appending(path: name.directory, directoryHint: .isDirectory)
    }

    /// Removes the directory with its content, and the lock after it.
    ///
    /// What can't be removed stays for the next sweep.
    func remove() {
        if place.removeTree(name.directory) { place.removeFile(name.lock) }
    }

    private static func sweep(_ place: OpenDirectory, _ url: URL) {
        for name in (try? place.names()) ?? [] {
            guard let name = Name(lock: String(cString: name)) else { continue }
            TemporaryDirectory(left: name, in: place, url)?.remove()
        }
    }

    private static func makeLock(
        in place: OpenDirectory,
        _ willLock: () -> Void
    ) throws(SystemError) -> (Name, Descriptor) {
        while true {
            let name = Name()
            let lock = try place.openFile(name.lock, O_RDWR | O_CREAT | O_EXCL)
            willLock()
            do {
                // A sweep may take the lock first: it removes the file then, and another name is needed.
                if try lock.lock(), try isStillNamed(lock, name, in: place) { return (name, lock) }
            } catch {
                place.removeFile(name.lock)
                throw error
            }
        }
    }

    private static func isStillNamed(
        _ lock: Descriptor,
        _ name: Name,
        in place: OpenDirectory
    ) throws(SystemError) -> Bool {
        do {
            let (held, named) = (try lock.status(), try place.status(name.lock))
            return held.st_dev == named.st_dev && held.st_ino == named.st_ino
        } catch  where error.number == ENOENT {
            return false
        }
    }

    /// What a directory and its lock are called.
    private struct Name {
        private static let prefix = "swift-store-sync-operation-"
        private static let suffix = ".lock"

        let directory: String
        var lock: String { directory + Self.suffix }

        init() {
            directory = Self.prefix + UUID().uuidString
        }

        /// The name of which this is the lock's; `nil` if it is no such name.
        init?(lock: String) {
            guard lock.hasPrefix(Self.prefix), lock.hasSuffix(Self.suffix) else { return nil }
            let identifier = lock.dropFirst(Self.prefix.count).dropLast(Self.suffix.count)
            guard let uuid = UUID(uuidString: String(identifier)), uuid.uuidString == identifier else { return nil }
            directory = Self.prefix + identifier
        }
    }
}
