import DatabaseSupport
import FileSupport
public import Foundation
import GRDB
package import SystemPackage

extension StoreSchema {
    /// Reads the schema of a store, and writes nothing.
    ///
    /// Blocks.
    ///
    /// ```swift
    /// let schema = try StoreSchema(storeAt: url)
    /// for report in schema.reports where !report.synchronizes {
    ///     print(report.table, report.reason ?? "")
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - url: The SQLite database; other programs may have it open.
    ///   - rules: What the schema doesn't say.
    /// - Throws: ``StoreChangesError``, with `invalidRules` if the rules name what the store doesn't have.
    public init(storeAt url: URL, rules: SyncRules = .none) throws {
        try Self.requireStore(at: url)
        do {
            self = try UntouchedStore(url).read { db in
                try rules.validate(db)
                var schema = try StoreSchema(db, rules: rules)
                try schema.askAboutRows(in: db)
                return schema
            }
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url)
        }
        guard (try? url.path.fileStatus()?.size) == 0 || SQLiteFile.isDatabase(at: url.path) else {
            throw StoreChangesError(noDatabaseAt: url)
        }
    }

    /// Checks that there is a file.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - replica: Where the store's replica is, if this device has synchronized the store.
    /// - Throws: ``StoreChangesError`` with `storeNotFound`.
    static func requireStore(at url: URL, ofReplicaAt replica: URL? = nil) throws {
        let status: Stat?
        do {
            status = try url.path.fileStatus()
        } catch {
            throw StoreChangesError(unreachableStore: url.path, error)
        }
        guard let status else {
            if let replica, FileManager.default.fileExists(atPath: replica.path) {
                throw StoreChangesError(missingStore: url)
            }
            throw StoreChangesError(
                .storeNotFound,
                "There is no file at \(url.path). Check the path of the store.",
                cause: Errno.noSuchFileOrDirectory
            )
        }
        guard status.type != .directory else {
            throw StoreChangesError(.storeNotFound, "\(url.path) is a directory, not a store. Name an SQLite database.")
        }
        // Opening a pipe would wait for its writer.
        guard status.type == .regular else {
            throw StoreChangesError(
                .storeNotFound,
                "\(url.path) is a device, a pipe or a socket, not a store. Name an SQLite database."
            )
        }
    }
}

extension StoreChangesError {
    /// Describes what SQLite reported of a store, or of its replica if there is one.
    init(_ error: DatabaseError, storeAt url: URL, replicaAt replica: URL? = nil) {
        if let replica, error.fault(ofDatabaseAt: replica.path) == .damage {
            self.init(error, damagedReplica: replica.path, ofStoreAt: url)
            return
        }
        let (store, fault) = (url.lastPathComponent, error.fault(ofDatabaseAt: url.path))
        let beside = "beside it" + (replica.map { " or in \($0.deletingLastPathComponent().path)" } ?? "")
        self =
            switch error.resultCode.primaryResultCode {
            case _ where fault == .reading:
                StoreChangesError(unreadable: store + (replica.map { ", or its record \($0.path)," } ?? ""), error)
            case _ where fault == .unknownSchema:
                StoreChangesError(.unsupportedFormat, DatabaseFault.unknownSchema(of: store, error), cause: error)
            case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL:
                StoreChangesError(
                    .busy,
                    "\(store) is being used by another program. Close it there, or try again.",
                    cause: error
                )
            case .SQLITE_INTERRUPT, .SQLITE_ABORT:
                StoreChangesError(
                    .busy,
                    "The app interrupted what was written to \(store), or suspended its database. Try again.",
                    cause: error
                )
            case .SQLITE_MISUSE:
                StoreChangesError(
                    .cannotWrite,
                    "The app has closed its connection to \(store). Open it again, then try again.",
                    cause: error
                )
            case .SQLITE_NOTADB:
                StoreChangesError(noDatabaseAt: url, error)
            case .SQLITE_CORRUPT:
                StoreChangesError(
                    .corrupt,
                    """
                    \(store) is damaged. Check it with “PRAGMA integrity_check”, or restore it from a backup. A store that was \
                    synchronized can be moved away: synchronizing with --take remote creates it from what is published.
                    """,
                    cause: error
                )
            case .SQLITE_READONLY where error.extendedResultCode == .SQLITE_READONLY_ROLLBACK:
                StoreChangesError(
                    .cannotWrite,
                    """
                    A program died while it wrote to \(store), and that has to be taken back first, which writes to the store. \
                    Open it once with its app, then try again.
                    """,
                    cause: error
                )
            // If the store itself can be read, SQLite couldn't create or open a log beside it.
            case .SQLITE_CANTOPEN where access(url.path, R_OK) == 0, .SQLITE_FULL, .SQLITE_READONLY, .SQLITE_IOERR:
                StoreChangesError(
                    .cannotWrite,
                    "\(store), or a file \(beside), can't be written. Check permissions and free space.",
                    cause: error
                )
            case .SQLITE_CANTOPEN, .SQLITE_AUTH, .SQLITE_PERM:
                StoreChangesError(.storeNotFound, "\(url.path) can't be read. Check its permissions.", cause: error)
            default:
                StoreChangesError(
                    .cannotWrite,
                    "SQLite can't use \(store): \(error.message ?? "\(error.resultCode)").",
                    cause: error
                )
            }
    }

    /// Says that a file isn't a database.
    fileprivate init(noDatabaseAt url: URL, _ cause: (any Error)? = nil) {
        self.init(
            .storeNotFound,
            "\(url.path) isn't an SQLite database, or it's encrypted. Only plain SQLite databases synchronize.",
            cause: cause
        )
    }

    /// Says that a store is missing that this device has synchronized.
    package init(missingStore url: URL) {
        self.init(
            .storeNotFound,
            """
            \(url.path) isn't there any more, and may have had edits that aren't published. Put it back; or synchronize with \
            --take remote, which creates the store from what is published.
            """,
            cause: Errno.noSuchFileOrDirectory
        )
    }

    /// Says that a store can't be reached, so that it may exist or not.
    package init(unreachableStore path: String, _ error: Errno) {
        self.init(
            .storeNotFound,
            "\(path) can't be read: \(error). Check the path, and check the permissions of its directory.",
            cause: error
        )
    }

    /// Says that reading files failed, which may be whole.
    init(unreadable files: String, _ error: DatabaseError) {
        self.init(.cannotWrite, DatabaseFault.unreadable(files), cause: error)
    }

    /// Says that the file system can't tell whether a file exists.
    package init(unreachableFile path: String, _ error: Errno) {
        self.init(
            .cannotWrite,
            "\(path) can't be read: \(error). Check the disk and the permissions of its directory, then try again.",
            cause: error
        )
    }

    /// Says that a replica is damaged.
    private init(_ error: DatabaseError, damagedReplica path: String, ofStoreAt url: URL) {
        self.init(
            .corrupt,
            """
            \(path), this device's record of \(url.lastPathComponent), is damaged. Synchronize with --rebuild to build it \
            again.
            """,
            cause: error
        )
    }
}
