import Foundation
import GRDB
import SyncCryptography

/// A copy of a local store as it was at one moment.
struct StoreSnapshot: Sendable {
    /// Where the copy is.
    let url: URL
    /// Its size in bytes.
    let byteCount: Int64
    /// Its digest, if copying found it out.
    let knownRoot: ContentRoot?

    /// Its digest, for which it may have to be read.
    ///
    /// Two snapshots of equal content have the same, on whatever device and with whatever version of SQLite. Blocks.
    var contentRoot: ContentRoot {
        get throws { try knownRoot ?? StoreSnapshot.reading(url) { try ContentRoot.ofFile(at: url).root } }
    }

    /// Copies a store, which may be open and written to meanwhile.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - destination: Where the copy goes; nothing is there yet, nor after an error.
    ///   - whileCopying: Called when a file that isn't SQLite's was copied, before it's checked: where tests write to it.
    /// - Returns: The copy.
    /// - Throws: ``StoreSyncError``: `storeNotFound`, `busy`, `corrupt`, `storeChanged`, `unsupportedFormat`, `cannotWrite`;
    ///   `CancellationError`.
    static func take(
        of store: LocalStore,
        at destination: URL,
        whileCopying: () throws -> Void = {}
    ) throws -> StoreSnapshot {
        try checkExists(store)
        switch try open(store) {
        case .database(let database):
            defer { try? database.close() }
            return try database.inDatabase { try copy($0, of: store, to: destination) }
        case .databaseAtRest:
            return try copyDatabaseAtRest(store, to: destination)
        case .file:
            return try copyFile(store, to: destination, whileCopying: whileCopying)
        }
    }

    /// Checks, without copying it, that a store can be copied.
    ///
    /// Blocks.
    ///
    /// - Parameter store: The store.
    /// - Throws: ``StoreSyncError``: `storeNotFound`, `busy`, `corrupt`, `unsupportedFormat`; `CancellationError`.
    static func checkSource(_ store: LocalStore) throws {
        try checkExists(store)
        switch try open(store) {
        case .database(let database): try? database.close()
        case .databaseAtRest: break
        case .file: try refuseSideFiles(of: store)
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

    private enum Source {
        case database(DatabaseQueue)
        /// One that SQLite can't open where it is, and that the file is all of.
        case databaseAtRest
        case file
    }

    private static func open(_ store: LocalStore) throws -> Source {
        do {
            return try store.openDatabase(timeout: 10).map(Source.database) ?? .file
        } catch let error as StoreSyncError
            where [.storeNotFound, .cannotWrite].contains(error.code) && store.sideFiles.isEmpty
        {
            // To read a store in WAL mode SQLite makes a log beside it, which it can't in a directory that is read-only.
            // Without a log there, nothing of the store is anywhere else.
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

    /// Takes a file for the copy.
    init(at url: URL) throws {
        let size = try Self.reading(url) { try url.resourceValues(forKeys: [.fileSizeKey]).fileSize }
        guard let size else { preconditionFailure("every file has a size") }
        self.init(url: url, byteCount: Int64(size), knownRoot: nil)
    }

    init(url: URL, byteCount: Int64, knownRoot: ContentRoot?) {
        self.url = url
        self.byteCount = byteCount
        self.knownRoot = knownRoot
    }

    /// Reads a piece of the copy.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - offset: Where it begins, in bytes.
    ///   - count: How many bytes are wanted.
    /// - Returns: The bytes; fewer than wanted only at the end.
    /// - Throws: An error of Foundation.
    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        let handle = try FileHandle(forReadingFrom: url)
        defer { try? handle.close() }
        try handle.seek(toOffset: UInt64(offset))
        return try handle.readBlock(of: count)
    }

    private static func reading<Result>(_ url: URL, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as CancellationError {
            throw error
        } catch {
            throw StoreSyncError(writing: url, error)
        }
    }

    /// Copies a database through an open connection to it.
    ///
    /// In one read transaction: a backup without one would begin again whenever somebody writes. What the header says of
    /// the device rather than of the content is set to fixed values.
    static func copy(_ source: Database, of store: LocalStore, to destination: URL) throws -> StoreSnapshot {
        try LocalFile.create(destination.path)
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
                    try copy.inDatabase { try DatabaseCopy.run(from: source, to: $0) }
                    return .commit
                }
            }
            try SQLiteHeader.normalize(destination)
            return try StoreSnapshot(at: destination)
        } catch {
            try? FileManager.default.removeItem(at: destination)
            throw error is DatabaseError ? StoreSyncError(database: error, at: store.path).orCancellation : error
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
