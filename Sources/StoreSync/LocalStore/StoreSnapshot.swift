import ContentDigests
import DatabaseSupport
import FileSupport
import Foundation
import GRDB
import SystemPackage

/// A copy of a local store as it was at one moment.
struct StoreSnapshot: Sendable {
    /// Where the copy is.
    let url: URL
    /// Its size in bytes.
    let byteCount: Int64
    /// How its pages are digested.
    let pages: PageHash
    /// Its digest, if it was computed while copying.
    let knownRoot: ContentRoot?

    /// Its digest, which may require reading the copy.
    ///
    /// Two snapshots of equal content have the same digest, on any device and with any version of SQLite. Blocks.
    var contentRoot: ContentRoot {
        get throws {
            try knownRoot
                ?? StoreSnapshot.reading(url, or: .cannotWrite) { try ContentRoot.ofFile(at: url, pages).root }
        }
    }

    /// Copies a store, which may be open and written to meanwhile.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - destination: Where the copy is created. Nothing exists there before, nor after an error.
    /// - Returns: The copy.
    /// - Throws: ``StoreSyncError``: `storeNotFound`, `busy`, `corrupt`, `storeChanged`, `unsupportedFormat`, `cannotWrite`;
    ///   `CancellationError`.
    static func take(of store: LocalStore, at destination: URL) throws -> StoreSnapshot {
        try checkExists(store)
        switch try open(store) {
        case .database(let database):
            defer { try? database.close() }
            return try database.inDatabase { try copy($0, of: store, to: destination) }
        case .databaseAtRest:
            return try copyDatabaseAtRest(store, to: destination)
        case .file:
            return try copyFile(store, to: destination)
        }
    }

    /// Checks that there is a file that can be read.
    static func checkExists(_ store: LocalStore) throws {
        guard try store.exists else {
            throw StoreSyncError(
                .storeNotFound,
                "There is no store at \(store.path) on this device. Check the path.",
                cause: Errno.noSuchFileOrDirectory
            )
        }
        guard access(store.url.path, R_OK) == 0 else {
            throw StoreSyncError(.storeNotFound, "\(store.path) can't be read on this device. Check its permissions.")
        }
    }

    /// How a store is read.
    enum Source {
        case database(DatabaseQueue)
        /// A database that SQLite can't open in place, and whose content is all in its file.
        case databaseAtRest
        case file
    }

    /// Opens a store, if SQLite can.
    static func open(_ store: LocalStore) throws -> Source {
        do {
            return try store.openDatabase(timeout: 10).map(Source.database) ?? .file
        } catch let error as StoreSyncError
            where [.storeNotFound, .cannotWrite].contains(error.code) && store.sideFiles.isEmpty
        {
            // To read a store in WAL mode, SQLite creates a log next to it, which fails in a read-only directory. If
            // there is no log yet, the file holds the whole store.
            return .databaseAtRest
        }
    }

    private static func copyDatabaseAtRest(_ store: LocalStore, to destination: URL) throws -> StoreSnapshot {
        let file = destination.appendingPathExtension("file")
        defer { try? FileManager.default.removeItem(at: file) }
        _ = try copyFile(store, to: file)
        try SQLiteHeader.setUsesLog(false, in: file)
        guard let database = try LocalStore(file).openDatabase(timeout: 0) else {
            throw StoreSyncError(.storeChanged, "\(store.path) was written to while it was copied. Try again.")
        }
        defer { try? database.close() }
        return try database.inDatabase { try copy($0, of: store, to: destination) }
    }

    /// Creates a snapshot whose copy is an existing file.
    init(at url: URL, _ pages: PageHash) throws {
        let size = try Self.reading(url, or: .cannotWrite) { try Stat(url.path).size }
        self.init(url: url, byteCount: size, pages, knownRoot: nil)
    }

    init(url: URL, byteCount: Int64, _ pages: PageHash, knownRoot: ContentRoot?) {
        self.url = url
        self.pages = pages
        self.byteCount = byteCount
        self.knownRoot = knownRoot
    }

    /// Reads a part of the copy.
    ///
    /// Blocks. The result has fewer bytes than `count` only at the end.
    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        try Self.reading(url, or: .cannotWrite) {
            let handle = try FileHandle(forReadingFrom: url)
            defer { try? handle.close() }
            try handle.seek(toOffset: UInt64(offset))
            return try handle.readBlock(of: count)
        }
    }

    /// Copies a database through an open connection to it.
    ///
    /// The copy runs in one read transaction, the connection's if it's in one: otherwise every commit of another connection
    /// would restart it. Header fields that describe the device, not the content, are set to fixed values.
    static func copy(_ source: Database, of store: LocalStore, to destination: URL) throws -> StoreSnapshot {
        try LocalFile.create(destination.path)
        do {
            var configuration = Configuration.ofThisPackage
            // The copy has no former state to roll back to. It's made durable as a whole, or discarded.
            configuration.prepareDatabase { try $0.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF") }
            let copy = try DatabaseQueue(path: destination.path, configuration: configuration)
            do {
                defer { try? copy.close() }
                let isInTransaction = source.isInsideTransaction
                if !isInTransaction { try source.beginTransaction(.deferred) }
                defer { if !isInTransaction { try? source.commit() } }
                // The first read starts the snapshot that is copied.
                _ = try Int.fetchOne(source, sql: "SELECT count(*) FROM sqlite_schema")
                try copy.inDatabase { try DatabaseCopy.run(from: source, to: $0) }
            }
            try SQLiteHeader.normalize(destination)
            return try StoreSnapshot(at: destination, store.pages)
        } catch {
            try? FileManager.default.removeItem(at: destination)
            throw error is DatabaseError ? StoreSyncError(database: error, at: store.url.path).orCancellation : error
        }
    }

    /// Checks a downloaded store that has no expected digest, and digests it as a snapshot would be.
    static func check(download: URL, copyingTo copy: URL) throws -> ContentRoot {
        let store = try LocalStore(download)
        let verdict: String?
        do {
            // The first read of a database that is cut off is an error already.
            guard let database = try store.openDatabase(timeout: 0) else {
                return try take(of: store, at: copy).contentRoot
            }
            defer { try? database.close() }
            verdict = try database.inDatabase { try String.fetchOne($0, sql: "PRAGMA quick_check(1)") }
        } catch let error as StoreSyncError where error.code == .corrupt {
            verdict = "it can't be read"
        } catch let error as DatabaseError {
            guard error.fault(ofDatabaseAt: store.url.path) != .reading else {
                throw StoreSyncError(database: error, at: store.url.path)
            }
            verdict = error.message
        }
        // Without a table that it can't parse, SQLite finds pages that are in no table.
        let damage = DatabaseError(resultCode: .SQLITE_CORRUPT)
        guard verdict == "ok" || damage.fault(ofDatabaseAt: store.url.path) == .unknownSchema else {
            throw StoreSyncError(
                .corrupt,
                "The store on the remote is damaged or has not arrived completely: \(verdict ?? "no answer"). Try again later."
            )
        }
        return try take(of: store, at: copy).contentRoot
    }
}
