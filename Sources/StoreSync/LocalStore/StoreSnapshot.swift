import Foundation
import GRDB
import SyncCryptography

/// A copy of a local store as it was at one moment, with its digest.
struct StoreSnapshot: Sendable {
    /// Where the copy is.
    var url: URL
    /// Its size in bytes.
    var byteCount: Int64
    /// Its digest.
    ///
    /// Two snapshots of equal content have the same, on whatever device and with whatever version of SQLite.
    var contentRoot: ContentRoot

    /// Copies a store, which may be open and written to meanwhile.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - destination: Where the copy goes; nothing is there yet.
    /// - Returns: The copy.
    /// - Throws: ``StoreSyncError``: `storeNotFound`, `busy`, `corrupt`, `storeChanged`, `unsupportedFormat`, `cannotWrite`.
    static func take(of store: LocalStore, at destination: URL) throws -> StoreSnapshot {
        try checkExists(store)
        if let database = try store.openDatabase(timeout: 10) {
            defer { try? database.close() }
            try database.inDatabase { try copy($0, of: store, to: destination) }
        } else {
            try copyFile(store, to: destination)
        }
        return try StoreSnapshot(at: destination)
    }

    /// Checks, without copying it, that a store can be copied.
    ///
    /// Blocks.
    ///
    /// - Parameter store: The store.
    /// - Throws: ``StoreSyncError``: `storeNotFound`, `busy`, `corrupt`, `unsupportedFormat`.
    static func checkSource(_ store: LocalStore) throws {
        try checkExists(store)
        if let database = try store.openDatabase(timeout: 10) {
            try? database.close()
        } else {
            try refuseSideFiles(of: store)
        }
    }

    private static func checkExists(_ store: LocalStore) throws {
        guard try store.exists else {
            throw StoreSyncError(.storeNotFound, "There is no store at \(store.path) on this device. Check the path.")
        }
        guard access(store.path, R_OK) == 0 else {
            throw StoreSyncError(.storeNotFound, "\(store.path) can't be read on this device. Check its permissions.")
        }
    }

    private static func refuseSideFiles(of store: LocalStore) throws {
        guard let file = store.sideFiles.first else { return }
        throw StoreSyncError(
            .unsupportedFormat,
            """
            Beside \(store.path) stands \(file), but the store isn't an SQLite database that can be read. \
            Nothing was copied: part of it may be in that file. Close it in the program that it belongs to.
            """
        )
    }

    init(at url: URL) throws {
        do {
            let (byteCount, root) = try ContentRoot.ofFile(at: url)
            self.init(url: url, byteCount: byteCount, contentRoot: root)
        } catch let error as CancellationError {
            throw error
        } catch {
            throw StoreSyncError(writing: url, error)
        }
    }

    private init(url: URL, byteCount: Int64, contentRoot: ContentRoot) {
        self.url = url
        self.byteCount = byteCount
        self.contentRoot = contentRoot
    }

    /// Copies a database through an open connection to it.
    ///
    /// In one read transaction and in one step: a backup in steps would begin again whenever somebody writes. What
    /// the header says of the device rather than of the content is set to fixed values.
    static func copy(_ source: Database, of store: LocalStore, to destination: URL) throws {
        do {
            var configuration = Configuration()
            // The copy has no past to go back to; it's made durable as a whole, or thrown away.
            configuration.prepareDatabase { try $0.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF") }
            let copy = try DatabaseQueue(path: destination.path, configuration: configuration)
            do {
                defer { try? copy.close() }
                try source.inTransaction(.deferred) {
                    // The first read pins the state that is copied.
                    _ = try Int.fetchOne(source, sql: "SELECT count(*) FROM sqlite_schema")
                    try copy.inDatabase { try source.backup(to: $0) }
                    return .commit
                }
            }
            try SQLiteHeader.normalize(destination)
        } catch {
            throw StoreSyncError(database: error, at: store.path)
        }
    }

    private static func copyFile(_ store: LocalStore, to destination: URL) throws {
        try refuseSideFiles(of: store)
        let before = store.fingerprint
        do {
            try FileManager.default.copyItem(at: store.url, to: destination)
        } catch let error as CocoaError
            where [.fileReadNoPermission, .fileReadNoSuchFile, .fileNoSuchFile].contains(error.code)
        {
            throw StoreSyncError(
                .storeNotFound,
                "\(store.path) can't be read on this device. Check its permissions.",
                cause: error
            )
        } catch {
            throw StoreSyncError(writing: destination, error)
        }
        guard before == store.fingerprint else {
            throw StoreSyncError(
                .storeChanged,
                "\(store.path) was written to while it was copied. Close it, or try again."
            )
        }
    }

    /// Checks a downloaded store of which nobody said what it has to be, and digests it as a snapshot would be.
    static func check(download: URL, copyingTo copy: URL) throws -> ContentRoot {
        let store = try LocalStore(download)
        if let database = try store.openDatabase(timeout: 0) {
            defer { try? database.close() }
            let verdict = try database.inDatabase { try String.fetchOne($0, sql: "PRAGMA quick_check(1)") }
            guard verdict == "ok" else {
                throw StoreSyncError(
                    .corrupt,
                    "The store on the remote is damaged or has not arrived whole: \(verdict ?? "no answer"). Try again later."
                )
            }
        }
        return try take(of: store, at: copy).contentRoot
    }
}
