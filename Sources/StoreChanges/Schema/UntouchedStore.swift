import DatabaseSupport
import FileSupport
import Foundation
import GRDB
import GRDBSQLite

/// A store that is read, and next to which nothing is written.
struct UntouchedStore {
    private let url: URL

    init(_ url: URL) {
        // SQLite keeps the log next to the file that a symbolic link leads to.
        self.url = url.path.canonicalPath.map { URL(filePath: $0) } ?? url
    }

    /// Reads the store in a transaction.
    ///
    /// Blocks.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        if let result = try readAtRest(body) { return result }
        return try DatabaseQueue(path: url.path, configuration: Self.configuration).read(body)
    }

    /// Reads a store in WAL mode that no program has open; `nil` for any other store.
    ///
    /// SQLite would create a log and its index next to such a store. The connection couldn't remove them, and couldn't read
    /// at all in a directory that it can't write.
    private func readAtRest<Result>(_ body: (Database) throws -> Result) throws -> Result? {
        guard try !hasLog else { return nil }
        let path = url.path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? url.path
        // An SQLite that takes the URI for a file's name doesn't find that file.
        guard let queue = try? DatabaseQueue(path: "file:\(path)?immutable=1", configuration: Self.configuration),
            queue.inDatabase({ $0.headerAsksForLog })
        else { return nil }
        let result = try queue.read(body)
        // A program may have opened the store meanwhile, and written to the file that was read without locks.
        return try hasLog ? nil : result
    }

    private var hasLog: Bool {
        get throws { try SynchronizedStore.exists(url.path + "-wal") }
    }

    private static let configuration: Configuration = {
        var configuration = Configuration.ofThisPackage
        configuration.readonly = true
        configuration.busyMode = .timeout(SynchronizedStore.busyTimeout)
        return configuration
    }()
}

extension Database {
    /// Whether the database's header asks for a write-ahead log.
    ///
    /// It's read through SQLite's own file handle: a separate descriptor, when closed, would drop the app's locks.
    fileprivate var headerAsksForLog: Bool {
        // The write version: 1 with a rollback journal, 2 with a write-ahead log.
        let version = try? SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: sqliteConnection)?.read(at: 18, count: 1)
        return version == [2]
    }
}
