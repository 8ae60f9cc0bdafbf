import FileSupport
import SystemPackage
import ThreadSupport

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

/// The temporary directory of one run, and the lock that shows other processes that the run is alive.
///
/// The lock is an empty file beside the directory, held with flock(2) as long as this object exists. A process that dies
/// leaves both. The next directory that is created in the same location removes them.
///
/// There is no race: the lock file is locked before the directory is created and until it has been removed, and a sweep
/// removes only directories whose lock it holds.
final class TemporaryDirectory: Sendable {
    private let name: Name
    private let parent: Directory
    private let lock: OpenFile
    let url: URL

    /// Creates a directory with mode 0700, after a sweep of the location.
    ///
    /// Every creation sweeps. That needs no state, finds what other processes left since the last sweep, and costs little
    /// compared with the files that the directory is for.
    ///
    /// - Parameters:
    ///   - url: The location in which the directory is created.
    ///   - willLock: Called between the creation of a lock file and its locking, where another process may sweep.
    /// - Throws: An error of the code `temporaryDirectoryUnavailable`.
    init(in url: URL, willLock: () -> Void = {}) throws(OperationError) {
        do {
            parent = try Directory(path: url.path)
            Self.sweep(parent, url)
            (name, lock) = try Self.makeLock(in: parent, willLock)
            self.url = url.appending(path: name.directory, directoryHint: .isDirectory)
            do {
                try parent.createDirectory(name.directory, permissions: .ownerReadWriteExecute)
            } catch {
                try? parent.unlink(name.lock)
                throw error
            }
        } catch {
            throw OperationError(
                .temporaryDirectoryUnavailable,
                """
                No temporary directory could be created in \(url.path): \(error). Make that directory readable and \
                writable, or set another one as the supervisor's temporaryDirectory.
                """
            )
        }
    }

    /// Takes over the directory and lock of a dead process; `nil` if it isn't certain that the process is dead.
    private init?(left name: Name, in parent: Directory, _ url: URL) {
        do {
            let lock = try parent.openToLock(name.lock)
            let status = try lock.status()
            guard status.type == .regular, status.isOfThisUser, status.linkCount == 1, try lock.lock() else {
                return nil
            }
            self.lock = lock
        } catch {
            return nil
        }
        self.name = name
        self.parent = parent
        self.url = url.appending(path: name.directory, directoryHint: .isDirectory)
    }

    /// Removes the directory with its content, then the lock.
    ///
    /// If the directory can't be removed, both stay for the next sweep.
    func remove() {
        if parent.removeOwnTree(name.directory) { try? parent.unlink(name.lock) }
    }

    private static func sweep(_ parent: Directory, _ url: URL) {
        for name in (try? parent.names()) ?? [] {
            let bytes = name.dropLast().map { UInt8(bitPattern: $0) }
            guard let name = Name(lock: String(decoding: bytes, as: UTF8.self)) else { continue }
            TemporaryDirectory(left: name, in: parent, url)?.remove()
        }
    }

    private static func makeLock(
        in parent: Directory,
        _ willLock: () -> Void
    ) throws(Errno) -> (Name, OpenFile) {
        while true {
            let name = Name()
            let lock = try parent.create(name.lock, permissions: .ownerReadWrite)
            willLock()
            do {
                // A sweep may take the lock first and remove the file. Then the loop tries another name.
                if try lock.lock(), try isStillNamed(lock, name, in: parent) { return (name, lock) }
            } catch {
                try? parent.unlink(name.lock)
                throw error
            }
        }
    }

    private static func isStillNamed(_ lock: OpenFile, _ name: Name, in parent: Directory) throws(Errno) -> Bool {
        try parent.status(name.lock)?.isOfSameFile(as: lock.status()) ?? false
    }

    /// The names of a directory and its lock.
    private struct Name {
        private static let prefix = "swift-store-sync-operation-"
        private static let suffix = ".lock"

        let directory: String
        var lock: String { directory + Self.suffix }

        init() {
            directory = Self.prefix + UUID().uuidString
        }

        /// Parses the name of a lock; `nil` if it isn't one.
        init?(lock: String) {
            guard lock.hasPrefix(Self.prefix), lock.hasSuffix(Self.suffix) else { return nil }
            let identifier = lock.dropFirst(Self.prefix.count).dropLast(Self.suffix.count)
            guard let uuid = UUID(uuidString: String(identifier)), uuid.uuidString == identifier else { return nil }
            directory = Self.prefix + identifier
        }
    }
}

extension OperationRecord {
    /// Returns the run's own directory, created on first use.
    func temporaryDirectory() async throws -> URL {
        if let existing = core.withBoard({ _ in extras?.temporaryDirectory }) { return existing.url }
        let made = try await runBlocking(on: core.environment.configuration.blockingExecutor) { [core] in
            let location = core.environment.configuration.temporaryDirectory
            return try TemporaryDirectory(in: location ?? FileManager.default.temporaryDirectory)
        }
        // Two concurrent callers may both have created a directory: the first is kept, the other is removed.
        let kept: TemporaryDirectory? = core.withBoard { _ in
            guard !hasEnded else { return nil }
            let kept = madeExtras.temporaryDirectory ?? made
            madeExtras.temporaryDirectory = kept
            return kept
        }
        if kept !== made { made.remove() }
        guard let kept else { throw CancellationError() }
        return kept.url
    }

    /// Removes the directory with everything in it, even if the operation is cancelled.
    func remove(_ directory: TemporaryDirectory) async {
        await shielded { [core] in
            try? await runBlocking(on: core.environment.configuration.blockingExecutor) { directory.remove() }
        }
    }
}

extension Directory {
    /// Removes a directory that this user owns, and as much of its content as can be removed.
    ///
    /// - Returns: Whether no directory with this name exists any more.
    fileprivate func removeOwnTree(_ name: String) -> Bool {
        do {
            let directory = try directory(name)
            guard try directory.status().isOfThisUser else { return false }
            directory.removeContents()
            try removeDirectory(name)
            return true
        } catch {
            return error == .noSuchFileOrDirectory
        }
    }

    private func removeContents() {
        for name in (try? names()) ?? [] {
            if let directory = try? directory(name) {
                directory.removeContents()
                try? removeDirectory(name)
            } else {
                try? unlink(name)
            }
        }
    }
}

extension Stat {
    fileprivate var isOfThisUser: Bool { userID.rawValue == geteuid() }
}
